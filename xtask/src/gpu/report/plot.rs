//! Draws time against memory: a curve of bounds, and each strategy as a point with its name.

use anyhow::{Result, anyhow};
use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, EmptyElement, IntoDrawingArea, IntoFont, IntoLogRange,
    LineSeries, PathElement, RGBColor, SVGBackend, SeriesLabelPosition, Text, WHITE,
};

const SIZE: (u32, u32) = (760, 460);
const CURVE: RGBColor = RGBColor(110, 110, 110);
const OTHERS: RGBColor = RGBColor(30, 90, 170);
const DEFAULT: RGBColor = RGBColor(200, 40, 40);
/// What is left free around the points.
const MARGIN: f64 = 1.25;
const MARGIN_TIME: f64 = 0.06;
/// About how wide a letter of a name is, in pixels.
const LETTER_WIDTH: i32 = 7;

/// One measured way.
pub(super) struct Point {
    pub(super) mebibytes: f64,
    pub(super) milliseconds: f64,
    /// A point of the curve has none.
    pub(super) name: Option<String>,
    pub(super) is_default: bool,
}

/// The plot as the text of an SVG file.
pub(super) fn draw(pattern: &str, points: &[Point]) -> Result<String> {
    let mut text = String::new();
    draw_into(&mut text, pattern, points).map_err(|error| anyhow!("drawing {pattern}: {error}"))?;
    Ok(text)
}

fn draw_into(
    text: &mut String,
    pattern: &str,
    points: &[Point],
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (least_memory, most_memory) = ends(points.iter().map(|point| point.mebibytes));
    let (least_time, most_time) = ends(points.iter().map(|point| point.milliseconds));
    let height = (most_time - least_time).max(least_time * MARGIN_TIME);
    let memory = (least_memory / MARGIN..most_memory * MARGIN * MARGIN).log_scale();
    let time = least_time - height * MARGIN_TIME..most_time + height * MARGIN_TIME * 5.0;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{pattern}: time against memory"), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(memory, time)?;
    chart
        .configure_mesh()
        .x_desc("peak of memory in use or freed and still in use (MiB)")
        .y_desc("time on the device (ms)")
        .x_label_formatter(&|mebibytes| format!("{mebibytes:.0}"))
        .y_label_formatter(&|milliseconds| format!("{milliseconds:.0}"))
        .light_line_style(WHITE)
        .draw()?;
    let mut curve: Vec<(f64, f64)> = points
        .iter()
        .filter(|point| point.name.is_none())
        .map(|point| (point.mebibytes, point.milliseconds))
        .collect();
    curve.sort_by(|left, right| left.0.total_cmp(&right.0));
    let line = LineSeries::new(curve, CURVE.stroke_width(2)).point_size(3);
    chart
        .draw_series(line)?
        .label("a bound alone, by hand")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], CURVE.stroke_width(2)));
    for (point, label) in labels(points) {
        let (color, radius) = if point.is_default { (DEFAULT, 6) } else { (OTHERS, 4) };
        let font = ("sans-serif", 13).into_font().color(&color);
        let mark = EmptyElement::at((point.mebibytes, point.milliseconds))
            + Circle::new((0, 0), radius, color.filled())
            + PathElement::new([(0, 0), (label.right.min(0) / 8, label.down + 12)], color.mix(0.4))
            + Text::new(label.text, (label.right, label.down), font);
        chart.draw_series([mark])?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .border_style(BLACK.mix(0.2))
        .draw()?;
    area.present()?;
    Ok(())
}

/// The name of a point and where it stands beside it, in pixels.
struct Label {
    text: String,
    right: i32,
    down: i32,
}

/// Names at four heights in turn, so that neighbours do not cover each other; in the right part of
/// the plot to the left of their points.
fn labels(points: &[Point]) -> Vec<(&Point, Label)> {
    let mut named: Vec<&Point> = points.iter().filter(|point| point.name.is_some()).collect();
    named.sort_by(|left, right| left.mebibytes.total_cmp(&right.mebibytes));
    let most = named.last().map_or(0.0, |point| point.mebibytes);
    let downs = [-26, -44, -62, -80].into_iter().cycle();
    let label = |(point, down): (&'_ Point, i32)| {
        let name = point.name.clone().unwrap_or_default();
        let text = if point.is_default { format!("{name} (default)") } else { name };
        let is_right = most < point.mebibytes * 3.0;
        let width = i32::try_from(text.len()).unwrap_or(0) * LETTER_WIDTH;
        Label { text, right: if is_right { -width } else { 6 }, down }
    };
    named.iter().zip(downs).map(|(point, down)| (*point, label((point, down)))).collect()
}

/// The least and the most; both 1 where there is none.
fn ends(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().reduce(f64::min).unwrap_or(1.0);
    (least, values.reduce(f64::max).unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use super::{Point, draw};

    #[test]
    fn every_named_point_is_in_the_plot_and_the_default_is_marked() {
        let point = |mebibytes, milliseconds, name: Option<&str>| Point {
            mebibytes,
            milliseconds,
            name: name.map(String::from),
            is_default: name == Some("record_stream"),
        };
        let points = [
            point(64.0, 120.0, None),
            point(256.0, 100.0, None),
            point(300.0, 101.0, Some("record_stream")),
            point(9_000.0, 100.0, Some("always_grow")),
        ];
        let text = draw("equal", &points).unwrap();
        for expected in ["<svg", "record_stream (default)", "always_grow", "polyline"] {
            assert!(text.contains(expected), "{expected} is missing in {text}");
        }
        assert!(draw("nothing", &[]).is_ok(), "no point is no error");
    }
}
