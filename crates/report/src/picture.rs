//! Memory over time as shapes: what `svg` writes and `png` paints.

use trace::amount::count_text;

use crate::gather::Gathered;
use crate::levels::Level;

pub(crate) const WIDTH: f32 = 1200.0;
pub(crate) const HEIGHT: f32 = 460.0;
const LEFT: f32 = 92.0;
const RIGHT: f32 = 24.0;
const TOP: f32 = 84.0;
const BOTTOM: f32 = 50.0;
/// How many columns stand for the whole time; each shows the highest moment within it.
const COLUMN_COUNT: usize = 720;

/// A color by its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Color(pub(crate) u8, pub(crate) u8, pub(crate) u8);

pub(crate) const PAPER: Color = Color(255, 255, 255);
const INK: Color = Color(27, 31, 36);
const QUIET: Color = Color(89, 99, 110);
const GRID: Color = Color(222, 226, 231);
const ALLOCATED: Color = Color(0, 114, 178);
const PENDING: Color = Color(230, 159, 0);
const CACHED: Color = Color(195, 203, 212);
const ALARM: Color = Color(179, 38, 30);

/// Where a text stands, seen from its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// One thing to draw. Lengths are in units of which the picture has [`WIDTH`] by [`HEIGHT`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// The inside of a line that closes.
    Area { points: Vec<(f32, f32)>, color: Color },
    /// A line through points.
    Line { points: Vec<(f32, f32)>, color: Color, width: f32 },
    /// Text whose base line starts, ends or has its middle at a place.
    Text { x: f32, y: f32, anchor: Anchor, color: Color, text: String },
}

/// The picture.
pub(crate) fn picture(gathered: &Gathered) -> Vec<Shape> {
    let columns = columns(gathered);
    let most = columns.iter().map(|column| column.top()).max().unwrap_or(0).max(1);
    let frame = Frame { most, count: columns.len().max(1) };
    let mut shapes = Vec::new();
    frame.grid(&mut shapes);
    let allocated = |it: &Column| it.level.allocated_bytes;
    let active = |it: &Column| it.level.active_bytes();
    let cached = |it: &Column| it.level.active_bytes().max(it.level.reserved_bytes);
    for (low, high, color) in [
        (None, allocated as fn(&Column) -> u64, ALLOCATED),
        (Some(allocated as fn(&Column) -> u64), active as fn(&Column) -> u64, PENDING),
        (Some(active as fn(&Column) -> u64), cached as fn(&Column) -> u64, CACHED),
    ] {
        if columns.iter().any(|it| low.map_or(0, |low| low(it)) < high(it)) {
            shapes.push(frame.band(&columns, low, high, color));
        }
    }
    if reserved_peak(gathered).is_some() {
        shapes.push(frame.reserved(&columns));
    }
    frame.failed(gathered, &mut shapes);
    frame.events(gathered, &mut shapes);
    words(gathered, &mut shapes);
    shapes
}

struct Column {
    /// The highest level of active bytes within it.
    level: Level,
    /// The most that was reserved within it.
    reserved_bytes: u64,
}

impl Column {
    fn top(&self) -> u64 {
        self.level.active_bytes().max(self.reserved_bytes)
    }
}

fn columns(gathered: &Gathered) -> Vec<Column> {
    let moment_count = gathered.levels.list.len();
    let count = COLUMN_COUNT.min(moment_count);
    let column = |number: usize| {
        let (from, to) = (number * moment_count / count, (number + 1) * moment_count / count);
        let (level, reserved_bytes) = gathered.levels.highest(from, to);
        Column { level, reserved_bytes }
    };
    (0..count).map(column).collect()
}

/// Turns bytes and columns into places.
struct Frame {
    most: u64,
    count: usize,
}

impl Frame {
    fn x(&self, column: usize) -> f32 {
        LEFT + (WIDTH - LEFT - RIGHT) * share(column, self.count)
    }

    fn y(&self, bytes: u64) -> f32 {
        // A little room above the highest.
        let part = wide(bytes) / (wide(self.most) * 1.05);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * narrow(part)
    }

    fn grid(&self, shapes: &mut Vec<Shape>) {
        let mut step: u64 = 1;
        while step.saturating_mul(6) < self.most {
            step = step.saturating_mul(2);
        }
        let mut level: u64 = 0;
        while level <= self.most {
            let y = self.y(level);
            let points = vec![(LEFT, y), (WIDTH - RIGHT, y)];
            shapes.push(Shape::Line { points, color: GRID, width: 1.0 });
            let text = bytes_text(level);
            shapes.push(text_shape(LEFT - 8.0, y + 4.0, Anchor::End, QUIET, text));
            match level.checked_add(step) {
                Some(next) => level = next,
                None => break,
            }
        }
    }

    fn band(
        &self,
        columns: &[Column],
        low: Option<fn(&Column) -> u64>,
        high: fn(&Column) -> u64,
        color: Color,
    ) -> Shape {
        let mut points = self.steps(columns, high);
        let mut below = self.steps(columns, |it| low.map_or(0, |low| low(it)));
        below.reverse();
        points.extend(below);
        Shape::Area { points, color }
    }

    fn reserved(&self, columns: &[Column]) -> Shape {
        let points = self.steps(columns, |it| it.reserved_bytes);
        Shape::Line { points, color: INK, width: 1.6 }
    }

    /// Both ends of each column's top, with nothing between columns of one height.
    fn steps(&self, columns: &[Column], bytes: impl Fn(&Column) -> u64) -> Vec<(f32, f32)> {
        let mut points: Vec<(f32, f32)> = Vec::new();
        for (column, number) in columns.iter().zip(0..) {
            let y = self.y(bytes(column));
            match points.as_mut_slice() {
                [.., last] if (last.1 - y).abs() < f32::EPSILON => last.0 = self.x(number + 1),
                _ => points.extend([(self.x(number), y), (self.x(number + 1), y)]),
            }
        }
        points
    }

    fn failed(&self, gathered: &Gathered, shapes: &mut Vec<Shape>) {
        let moment_count = gathered.levels.list.len();
        let mut free_from = f32::MIN;
        for failed in &gathered.history.failed {
            let moment = usize::try_from(failed.moment).unwrap_or(0);
            let x = LEFT + (WIDTH - LEFT - RIGHT) * share(moment, moment_count);
            let points = vec![(x, TOP - 4.0), (x, HEIGHT - BOTTOM)];
            shapes.push(Shape::Line { points, color: ALARM, width: 1.5 });
            // The first of several that lie close has the text.
            if free_from < x {
                let text = format!("out of memory: {}", bytes_text(failed.bytes));
                let anchor = if x < WIDTH / 2.0 { Anchor::Start } else { Anchor::End };
                shapes.push(text_shape(x, TOP - 9.0, anchor, ALARM, text));
                free_from = x + 240.0;
            }
        }
    }

    fn events(&self, gathered: &Gathered, shapes: &mut Vec<Shape>) {
        let count = gathered.history.events.len();
        let mut step = 1_usize;
        let mut factors = [2, 5, 10].iter().cycle();
        let (mut power, mut factor) = (1_usize, 1);
        while step.saturating_mul(8) < count {
            factor = *factors.next().unwrap_or(&10);
            step = power.saturating_mul(factor);
            if factor == 10 {
                power = step;
            }
        }
        let _ = factor;
        for at in (0..=count).step_by(step) {
            let x = LEFT + (WIDTH - LEFT - RIGHT) * share(at, count + 1);
            let y = HEIGHT - BOTTOM;
            let points = vec![(x, y), (x, y + 5.0)];
            shapes.push(Shape::Line { points, color: QUIET, width: 1.0 });
            if x < WIDTH - RIGHT - 60.0 {
                shapes.push(text_shape(x, y + 20.0, Anchor::Middle, QUIET, count_text(at)));
            }
        }
        let (x, y) = (WIDTH - RIGHT, HEIGHT - 8.0);
        shapes.push(text_shape(x, y, Anchor::End, QUIET, format!("{} events", count_text(count))));
    }
}

/// The title, the peaks, and what the colors mean.
fn words(gathered: &Gathered, shapes: &mut Vec<Shape>) {
    let levels = &gathered.levels;
    shapes.push(text_shape(LEFT, 24.0, Anchor::Start, INK, gathered.title.clone()));
    let told = format!(
        "peak active {}, peak reserved {}",
        bytes_text(levels.peak_active_bytes),
        reserved_peak(gathered).map_or_else(|| "not recorded".to_owned(), bytes_text)
    );
    shapes.push(text_shape(WIDTH - RIGHT, 24.0, Anchor::End, QUIET, told));
    let has_pending = levels.list.iter().any(|level| 0 < level.pending_bytes);
    let has_reserved = reserved_peak(gathered).is_some();
    let mut x = LEFT;
    for (name, color, is_shown) in [
        ("allocated", ALLOCATED, true),
        ("pending free", PENDING, has_pending),
        ("cached", CACHED, has_reserved),
        ("reserved", INK, has_reserved),
    ] {
        if !is_shown {
            continue;
        }
        let (top, bottom) = if name == "reserved" { (44.0, 46.5) } else { (39.0, 51.0) };
        let points = vec![(x, top), (x + 12.0, top), (x + 12.0, bottom), (x, bottom)];
        shapes.push(Shape::Area { points, color });
        shapes.push(text_shape(x + 18.0, 50.0, Anchor::Start, INK, name.to_owned()));
        x += 130.0;
    }
}

/// What was reserved at most, if that was recorded.
fn reserved_peak(gathered: &Gathered) -> Option<u64> {
    let levels = &gathered.levels;
    crate::reserved_peak(levels.peak_active_bytes, levels.peak_reserved_bytes)
}

fn text_shape(x: f32, y: f32, anchor: Anchor, color: Color, text: String) -> Shape {
    Shape::Text { x, y, anchor, color, text }
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture needs few digits")]
fn wide(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(clippy::cast_possible_truncation, reason = "a place in a picture needs few digits")]
fn narrow(part: f64) -> f32 {
    part as f32
}

fn share(part: usize, whole: usize) -> f32 {
    let wide = |count: usize| wide(u64::try_from(count).unwrap_or(u64::MAX));
    narrow(wide(part) / wide(whole.max(1)))
}

/// Bytes with a unit and at most three digits.
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: &[&str] = &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = wide(bytes);
    let mut units = UNITS.iter();
    let mut unit = units.next().unwrap_or(&"B");
    while 1024.0 <= value {
        let Some(next) = units.next() else { break };
        value /= 1024.0;
        unit = next;
    }
    let digits = if 100.0 <= value || value.fract() == 0.0 {
        0
    } else if value < 10.0 {
        2
    } else {
        1
    };
    let mut text = format!("{value:.digits$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    format!("{text} {unit}")
}

#[cfg(test)]
mod tests {
    use super::bytes_text;

    #[test]
    fn numbers_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (1536, "1.5 KiB"),
            (2048 + 1, "2 KiB"),
            (20 << 20, "20 MiB"),
            ((20 << 20) + 300_000, "20.3 MiB"),
            ((999 << 30) + 1, "999 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes_text(bytes), text, "{bytes}");
        }
    }
}
