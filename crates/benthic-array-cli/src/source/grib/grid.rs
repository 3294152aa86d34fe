//! The grid of a field: the dimensions of its points, in the order in which they are stored.
//!
//! Regular grids of latitudes and longitudes, also Gaussian ones, have coordinates. Points of a
//! projection or of rotated poles have the dimensions `y` and `x` without coordinates. All others,
//! such as those of reduced grids, have one dimension `values`.

use super::octets::Section;
use benthic_core::{Error, Result};
use std::f64::consts::PI;

/// Limit on the points of a field. A message of constant values is small, even if it claims to be
/// large.
const POINTS_MAX: u64 = 1 << 26;
/// Limit on the latitudes between a pole and the equator of a Gaussian grid. Finding them takes its
/// square.
const GAUSSIAN_MAX: usize = 1 << 12;

/// A dimension of a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct GridAxis {
    pub name: &'static str,
    pub len: u64,
    pub coordinates: Option<Vec<f64>>,
}

/// The points of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    pub name: &'static str,
    pub axes: Vec<GridAxis>,
    /// The length of a row if every other row is stored backwards, else 0.
    pub alternating: u32,
}

/// Bits of the scanning mode.
const WEST: u8 = 0x80;
const NORTH: u8 = 0x40;
const COLUMNS: u8 = 0x20;
const ALTERNATING: u8 = 0x10;
const STAGGERED: u8 = 0x0f;

/// A grid of rows, without its projection.
struct Rows {
    name: &'static str,
    x: u32,
    y: u32,
    scan: u8,
}

/// First and last points in the same unit, as `[latitude, longitude]`.
struct Corners {
    first: [i64; 2],
    last: [i64; 2],
    units_per_degree: f64,
}

impl Grid {
    /// Parses section 3 of edition 2.
    ///
    /// # Errors
    /// `Unsupported`, `Corrupt`.
    pub fn edition_2(section: &Section<'_>) -> Result<Grid> {
        let points = section.u32(7)?;
        let template = section.u16(13)?;
        let (name, scan_octet) = match template {
            0 => ("regular_ll", 72),
            1 => ("rotated_ll", 72),
            10 => ("mercator", 60),
            20 => ("polar_stereographic", 65),
            30 => ("lambert", 65),
            40 => ("regular_gg", 72),
            _ => return Grid::values("unknown", points),
        };
        let rows = Rows { name, x: section.u32(31)?, y: section.u32(35)?, scan: section.u8(scan_octet)? };
        if rows.x == u32::MAX || rows.y == u32::MAX {
            return Grid::values(if template == 40 { "reduced_gg" } else { "reduced_ll" }, points);
        }
        if u64::from(rows.x) * u64::from(rows.y) != u64::from(points) {
            return Err(unsupported("its grid has another number of points than its rows have"));
        }
        if !matches!(template, 0 | 40) {
            return rows.without_coordinates();
        }
        let units_per_degree = match (section.u32(39)?, section.u32(43)?) {
            (0 | u32::MAX, _) | (_, 0 | u32::MAX) => 1e6,
            (angle, subdivisions) => f64::from(subdivisions) / f64::from(angle),
        };
        let degrees = |octet: usize| -> Result<[i64; 2]> {
            Ok([section.i32(octet)?.into(), section.i32(octet + 4)?.into()])
        };
        let corners = Corners { first: degrees(47)?, last: degrees(56)?, units_per_degree };
        let gaussian = if template == 40 { Some(section.u32(68)?) } else { None };
        rows.with_coordinates(&corners, gaussian)
    }

    /// Parses section 2 of edition 1.
    ///
    /// # Errors
    /// As [`Grid::edition_2`].
    pub fn edition_1(section: &Section<'_>) -> Result<Grid> {
        let kind = section.u8(6)?;
        let name = match kind {
            0 => "regular_ll",
            1 => "mercator",
            3 => "lambert",
            4 => "regular_gg",
            5 => "polar_stereographic",
            10 => "rotated_ll",
            _ => return Err(unsupported("its kind of grid is not supported")),
        };
        let (x, y) = (section.u16(7)?, section.u16(9)?);
        if x == u16::MAX {
            let name = if kind == 4 { "reduced_gg" } else { "reduced_ll" };
            return Grid::values(name, reduced_points(section, y)?);
        }
        let rows = Rows { name, x: x.into(), y: y.into(), scan: section.u8(28)? & !ALTERNATING };
        if !matches!(kind, 0 | 4) {
            return rows.without_coordinates();
        }
        let degrees = |octet: usize| -> Result<[i64; 2]> {
            Ok([section.i24(octet)?.into(), section.i24(octet + 3)?.into()])
        };
        let corners = Corners { first: degrees(11)?, last: degrees(18)?, units_per_degree: 1e3 };
        let gaussian = if kind == 4 { Some(section.u16(26)?.into()) } else { None };
        rows.with_coordinates(&corners, gaussian)
    }

    fn values(name: &'static str, points: u32) -> Result<Grid> {
        let axis = GridAxis { name: "values", len: points.into(), coordinates: None };
        Grid { name, axes: vec![axis], alternating: 0 }.check()
    }

    fn check(self) -> Result<Grid> {
        let points = self.points();
        if points == 0 {
            return Err(damaged());
        }
        if points > POINTS_MAX {
            return Err(unsupported("its grid has too many points: more than 67,108,864"));
        }
        Ok(self)
    }

    pub fn points(&self) -> u64 {
        self.axes.iter().map(|axis| axis.len).product()
    }
}

impl Rows {
    fn grid(self, x: GridAxis, y: GridAxis) -> Result<Grid> {
        let axes = if self.scan & COLUMNS == 0 { vec![y, x] } else { vec![x, y] };
        let row = if self.scan & COLUMNS == 0 { self.x } else { self.y };
        let alternating = if self.scan & ALTERNATING == 0 { 0 } else { row };
        Grid { name: self.name, axes, alternating }.check()
    }

    fn without_coordinates(self) -> Result<Grid> {
        let axis = |name, len: u32| GridAxis { name, len: len.into(), coordinates: None };
        let (x, y) = (axis("x", self.x), axis("y", self.y));
        self.grid(x, y)
    }

    fn with_coordinates(self, corners: &Corners, gaussian: Option<u32>) -> Result<Grid> {
        if self.scan & STAGGERED != 0 {
            return self.without_coordinates();
        }
        // Before any coordinates, which a grid without rows would have, too.
        if self.x == 0 || self.y == 0 {
            return Err(damaged());
        }
        if u64::from(self.x).saturating_mul(self.y.into()) > POINTS_MAX {
            return self.without_coordinates();
        }
        let whole_circle = (360.0 * corners.units_per_degree) as i64;
        let [(first_lat, first_lon), (last_lat, mut last_lon)] =
            [corners.first, corners.last].map(|[latitude, longitude]| (latitude, longitude));
        let mut first_lon = first_lon;
        // Longitudes do not jump within the grid.
        match self.scan & WEST == 0 {
            true if first_lon > last_lon => first_lon -= whole_circle,
            false if first_lon < last_lon => last_lon -= whole_circle,
            _ => {}
        }
        // A closed circle.
        if first_lon == last_lon && self.x > 1 {
            last_lon += if self.scan & WEST == 0 { whole_circle } else { -whole_circle };
        }
        let spread = |first: i64, last: i64, len: u32| -> Vec<f64> {
            let steps = i64::from(len.max(2) - 1);
            let at = |step: i64| {
                // Exact, so that a step of 0.1 is the number nearest to it.
                let sum = i128::from(first) * i128::from(steps - step) + i128::from(last) * i128::from(step);
                sum as f64 / (steps as f64 * corners.units_per_degree)
            };
            (0..i64::from(len)).map(at).collect()
        };
        let longitudes = spread(first_lon, last_lon, self.x);
        let latitudes = match gaussian {
            None => spread(first_lat, last_lat, self.y),
            Some(number) => {
                let first = first_lat as f64 / corners.units_per_degree;
                gaussian_rows(number as usize, first, self.y as usize, self.scan & NORTH != 0)?
            }
        };
        let axis = |name, coordinates: Vec<f64>| GridAxis {
            name,
            len: coordinates.len() as u64,
            coordinates: Some(coordinates),
        };
        let (x, y) = (axis("longitude", longitudes), axis("latitude", latitudes));
        self.grid(x, y)
    }
}

/// Latitudes of a Gaussian grid from the one nearest to `first`.
fn gaussian_rows(number: usize, first: f64, len: usize, to_north: bool) -> Result<Vec<f64>> {
    if number == 0 || number > GAUSSIAN_MAX {
        return Err(unsupported("its Gaussian grid has too many latitudes"));
    }
    let mut all = gaussian_latitudes(number);
    if to_north {
        all.reverse();
    }
    let distance = |latitude: &f64| (latitude - first).abs();
    let nearest = all.iter().enumerate().min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
    let start = nearest.map_or(0, |(start, _)| start);
    let rows = all.get(start..start + len).ok_or_else(damaged)?;
    Ok(rows.to_vec())
}

/// The roots of the Legendre polynomial of degree 2 × `number`, as latitudes from north to south.
fn gaussian_latitudes(number: usize) -> Vec<f64> {
    let degree = 2 * number;
    let root = |index: usize| {
        let mut x = (PI * (index as f64 + 0.75) / (degree as f64 + 0.5)).cos();
        for _ in 0..10 {
            let (mut last, mut value) = (1.0, x);
            for k in 2..=degree {
                let next = ((2 * k - 1) as f64 * x * value - (k - 1) as f64 * last) / k as f64;
                (last, value) = (value, next);
            }
            let slope = degree as f64 * (x * value - last) / (x * x - 1.0);
            let step = value / slope;
            x -= step;
            if step.abs() < 1e-15 {
                break;
            }
        }
        x.asin().to_degrees()
    };
    let north: Vec<f64> = (0..number).map(root).collect();
    let south = north.iter().rev().map(|latitude| -latitude);
    north.iter().copied().chain(south).collect()
}

/// The points of a reduced grid of edition 1: the sum of the lengths of its rows.
fn reduced_points(section: &Section<'_>, rows: u16) -> Result<u32> {
    let start = usize::from(section.u8(5)?) + 4 * usize::from(section.u8(4)?);
    (0..usize::from(rows)).try_fold(0, |sum: u32, row| Ok(sum + u32::from(section.u16(start + 2 * row)?)))
}

fn damaged() -> Error {
    Error::corrupt("the grid of a GRIB message is damaged")
}

fn unsupported(message: &str) -> Error {
    Error::unsupported(message)
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
