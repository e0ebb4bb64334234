//! Writes a picture's shapes as SVG.

use std::fmt::Write as _;

use crate::page::escaped;
use crate::picture::{Anchor, Color, HEIGHT, PAPER, Shape, WIDTH};

/// The picture as one element.
pub(crate) fn svg(shapes: &[Shape]) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"{}\"/>\n",
        hex(PAPER)
    );
    for shape in shapes {
        // Writing to a string cannot fail.
        let _ = match shape {
            Shape::Area { points, color } => {
                writeln!(text, "<path d=\"{}Z\" fill=\"{}\"/>", path(points), hex(*color))
            }
            Shape::Line { points, color, width } => writeln!(
                text,
                "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"/>",
                path(points),
                hex(*color)
            ),
            Shape::Text { x, y, anchor, color, text: words } => writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\" fill=\"{}\">{}</text>",
                match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                },
                hex(*color),
                escaped(words)
            ),
        };
    }
    text + "</svg>\n"
}

/// Straight lines through the points; one that is level or upright is told by one number.
fn path(points: &[(f32, f32)]) -> String {
    let mut text = String::new();
    let mut last: Option<(f32, f32)> = None;
    for &(x, y) in points {
        let is_near = |one: f32, other: f32| (one - other).abs() < 0.01;
        let _ = match last {
            None => write!(text, "M{x:.1} {y:.1}"),
            Some(before) if is_near(before.1, y) => write!(text, "H{x:.1}"),
            Some(before) if is_near(before.0, x) => write!(text, "V{y:.1}"),
            Some(_) => write!(text, "L{x:.1} {y:.1}"),
        };
        last = Some((x, y));
    }
    text
}

fn hex(Color(red, green, blue): Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
