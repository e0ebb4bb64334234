//! Paints a picture's shapes and encodes them as PNG.
//!
//! Letters come drawn beforehand, so that no font need be installed; a character outside the basic
//! Latin ones is shown as a question mark.

use noto_sans_mono_bitmap::{
    FontWeight, RasterHeight, RasterizedChar, get_raster, get_raster_width,
};
use tiny_skia::{
    FillRule, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8, Stroke, Transform,
};

use crate::picture::{Anchor, Color, HEIGHT, PAPER, Shape, WIDTH};

/// How many pixels a unit of the picture has, either way.
const SCALE: f32 = 2.0;
const LETTER: RasterHeight = RasterHeight::Size24;
const WEIGHT: FontWeight = FontWeight::Regular;
/// From the base line up to the top of a letter's raster, in pixels.
const ASCENT: i32 = 19;

/// Why a picture cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// There is no memory for its pixels.
    #[error("no memory for a picture of {width} x {height} pixels")]
    TooLarge {
        /// Pixels from left to right.
        width: u32,
        /// Pixels from top to bottom.
        height: u32,
    },
    /// The encoder failed.
    #[error("the picture cannot be encoded: {0}")]
    Encode(String),
}

/// The picture as a file.
pub(crate) fn png(shapes: &[Shape]) -> Result<Vec<u8>, PngError> {
    let (width, height) = (pixels(WIDTH * SCALE), pixels(HEIGHT * SCALE));
    let mut pixmap = Pixmap::new(width, height).ok_or(PngError::TooLarge { width, height })?;
    pixmap.fill(tiny_skia::Color::from_rgba8(PAPER.0, PAPER.1, PAPER.2, 255));
    let scale = Transform::from_scale(SCALE, SCALE);
    for shape in shapes {
        match shape {
            Shape::Area { points, color } => {
                if let Some(path) = path(points, true) {
                    pixmap.fill_path(&path, &paint(*color), FillRule::EvenOdd, scale, None);
                }
            }
            Shape::Line { points, color, width } => {
                if let Some(path) = path(points, false) {
                    let stroke = Stroke { width: *width, ..Stroke::default() };
                    pixmap.stroke_path(&path, &paint(*color), &stroke, scale, None);
                }
            }
            Shape::Text { x, y, anchor, color, text } => {
                letters(&mut pixmap, (x * SCALE, y * SCALE), *anchor, *color, text);
            }
        }
    }
    pixmap.encode_png().map_err(|error| PngError::Encode(error.to_string()))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a picture has some thousand pixels, none below zero"
)]
fn pixels(length: f32) -> u32 {
    length.round() as u32
}

#[expect(clippy::cast_possible_truncation, reason = "a place in a picture of some thousand pixels")]
fn pixel(place: f32) -> i32 {
    place.round() as i32
}

fn paint(color: Color) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(color.0, color.1, color.2, 255);
    paint
}

fn path(points: &[(f32, f32)], closes: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for (number, &(x, y)) in points.iter().enumerate() {
        if number == 0 {
            builder.move_to(x, y);
        } else {
            builder.line_to(x, y);
        }
    }
    if closes {
        builder.close();
    }
    builder.finish()
}

/// Writes text at a place of its base line.
fn letters(pixmap: &mut Pixmap, (x, y): (f32, f32), anchor: Anchor, color: Color, text: &str) {
    let advance = i32::try_from(get_raster_width(WEIGHT, LETTER)).unwrap_or(0);
    let length = i32::try_from(text.chars().count()).unwrap_or(i32::MAX).saturating_mul(advance);
    let mut left = match anchor {
        Anchor::Start => pixel(x),
        Anchor::Middle => pixel(x) - length / 2,
        Anchor::End => pixel(x) - length,
    };
    let top = pixel(y) - ASCENT;
    for character in text.chars() {
        let raster =
            get_raster(character, WEIGHT, LETTER).or_else(|| get_raster('?', WEIGHT, LETTER));
        for (line, row) in raster.iter().flat_map(RasterizedChar::rows).zip(0..) {
            for (intensity, column) in line.iter().zip(0..) {
                blend(pixmap, (left + column, top + row), color, *intensity);
            }
        }
        left = left.saturating_add(advance);
    }
}

/// Mixes a color into one pixel, if there is such a pixel.
fn blend(pixmap: &mut Pixmap, (x, y): (i32, i32), color: Color, intensity: u8) {
    let (width, height) = (pixmap.width(), pixmap.height());
    let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
    if width <= x || height <= y || intensity == 0 {
        return;
    }
    let place = usize::try_from(y * width + x).ok();
    let Some(pixel) = place.and_then(|place| pixmap.pixels_mut().get_mut(place)) else { return };
    let mix = |below: u8, above: u8| {
        let (share, rest) = (u32::from(intensity), 255 - u32::from(intensity));
        let mixed = (u32::from(below) * rest + u32::from(above) * share) / 255;
        u8::try_from(mixed).unwrap_or(u8::MAX)
    };
    let (red, green, blue) =
        (mix(pixel.red(), color.0), mix(pixel.green(), color.1), mix(pixel.blue(), color.2));
    if let Some(mixed) = PremultipliedColorU8::from_rgba(red, green, blue, 255) {
        *pixel = mixed;
    }
}
