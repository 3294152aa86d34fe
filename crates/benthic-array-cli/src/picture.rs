//! Pictures of tables of numbers: as PNG files, and as text for a terminal.

use benthic_core::{Error, Result};
use colorous::{Color, Gradient};
use std::fmt::Write;

/// A table of numbers, and the colors of its smallest and largest value and between them.
pub struct Picture {
    /// In C order, the top row first. NaN has no color.
    pub values: Vec<f64>,
    pub columns: usize,
    pub min: f64,
    pub max: f64,
    pub gradient: Gradient,
    /// Whether the largest value has the gradient's first color.
    pub is_reversed: bool,
}

impl Picture {
    pub fn rows(&self) -> usize {
        self.values.len() / self.columns.max(1)
    }

    fn color(&self, row: usize, column: usize) -> Option<Color> {
        let value = *self.values.get(row * self.columns + column)?;
        if value.is_nan() {
            return None;
        }
        let width = self.max - self.min;
        let part = if width > 0.0 { ((value - self.min) / width).clamp(0.0, 1.0) } else { 0.5 };
        Some(self.gradient.eval_continuous(if self.is_reversed { 1.0 - part } else { part }))
    }

    /// Encodes the picture as PNG, with this number of pixels along each side of a value. NaN is
    /// transparent.
    ///
    /// # Errors
    /// `LimitExceeded` if a side has more than 2³¹ pixels.
    pub fn png(&self, value_pixels: usize) -> Result<Vec<u8>> {
        let mut pixels = Vec::with_capacity(self.values.len() * value_pixels * value_pixels * 4);
        for row in 0..self.rows() {
            let start = pixels.len();
            for column in 0..self.columns {
                let rgba = self.color(row, column).map_or([0; 4], |Color { r, g, b }| [r, g, b, u8::MAX]);
                pixels.extend(std::iter::repeat_n(rgba, value_pixels).flatten());
            }
            let end = pixels.len();
            for _ in 1..value_pixels {
                pixels.extend_from_within(start..end);
            }
        }
        let side = |values: usize| u32::try_from(values * value_pixels).unwrap_or(u32::MAX);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, side(self.columns), side(self.rows()));
        encoder.set_color(png::ColorType::Rgba);
        let written = encoder.write_header().and_then(|mut writer| {
            writer.write_image_data(&pixels)?;
            writer.finish()
        });
        let failed = |error| Error::limit_exceeded("the picture is too large").with_source(error);
        written.map_err(failed)?;
        Ok(file)
    }

    /// The picture as text with colors. A character shows two values, one above the other, as the
    /// foreground and background of a half block.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for row in (0..self.rows()).step_by(2) {
            if row > 0 {
                text.push('\n');
            }
            for column in 0..self.columns {
                let colors = (self.color(row, column), self.color(row + 1, column));
                // Writing to a text cannot fail.
                let _ = match colors {
                    (None, None) => write!(text, "\x1b[0m "),
                    (Some(top), None) => write!(text, "\x1b[0;38;2;{}m▀", codes(top)),
                    (None, Some(bottom)) => write!(text, "\x1b[0;38;2;{}m▄", codes(bottom)),
                    (Some(top), Some(bottom)) => {
                        write!(text, "\x1b[38;2;{};48;2;{}m▀", codes(top), codes(bottom))
                    }
                };
            }
            text.push_str("\x1b[0m");
        }
        text
    }
}

fn codes(Color { r, g, b }: Color) -> String {
    format!("{r};{g};{b}")
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
