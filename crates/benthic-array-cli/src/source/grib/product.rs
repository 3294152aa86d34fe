//! The parameter, level and time of a field: sections 1 and 4 of edition 2, section 1 of edition 1.

use super::octets::Section;
use super::parameters::{Details, Parameter};
use benthic_core::{Error, Result};

/// The axes beside those of the grid, in the order of an array.
pub const AXES: usize = 4;
pub const NUMBER: usize = 0;
pub const TIME: usize = 1;
pub const STEP: usize = 2;
pub const LEVEL: usize = 3;

/// A position along an axis. A layer has two levels; otherwise the second number is 0.
pub type Position = [f64; 2];

/// A field without its grid and values.
#[derive(Clone, Debug)]
pub struct Product {
    pub key: ProductKey,
    /// Member of an ensemble; reference time in seconds since 1970; step in seconds; level.
    pub at: [Position; AXES],
}

/// Fields with the same key are in one array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProductKey {
    pub parameter: Parameter,
    /// As ecCodes calls it, such as `isobaricInhPa`.
    pub level_type: String,
    surface: u8,
    /// Of edition 2, or `timeRangeIndicator` of edition 1.
    statistic: Option<u8>,
    pub step_type: String,
    pub has_members: bool,
    /// A mean of an ensemble, for example.
    pub derived: u8,
}

impl Product {
    /// The properties on which the parameter's name depends.
    pub fn details(&self) -> Details {
        Details { surface: self.key.surface, level: self.at[LEVEL][0], statistic: self.key.statistic }
    }

    /// Parses the sections 1 and 4 of edition 2.
    ///
    /// # Errors
    /// `Unsupported`, `Corrupt`.
    pub fn edition_2(discipline: u8, identification: &Section<'_>, product: &Section<'_>) -> Result<Product> {
        let template = product.u16(8)?;
        // The octets of members, of a derived product, and of the end of a period.
        let (member, derived, period) = match template {
            0 => (None, None, None),
            1 => (Some(36), None, None),
            2 => (None, Some(35), None),
            8 => (None, None, Some(35)),
            11 => (Some(36), None, Some(38)),
            12 => (None, Some(35), Some(37)),
            _ => {
                let message = format!("its kind of product (template 4.{template}) is not supported");
                return Err(Error::unsupported(message));
            }
        };
        let time = date_time(identification, 13)?;
        let (step, statistic) = match period {
            None => (i64::from(product.i32(19)?) * time_unit(product.u8(18)?, false)?, None),
            Some(octet) => (date_time(product, octet)? - time, Some(product.u8(octet + 12)?)),
        };
        let (level_type, level) = level_2(product)?;
        let key = ProductKey {
            parameter: Parameter {
                edition: 2,
                centre: identification.u16(6)?,
                number: vec![discipline, product.u8(10)?, product.u8(11)?],
            },
            level_type,
            surface: product.u8(23)?,
            statistic,
            step_type: statistic.map_or_else(|| "instant".to_owned(), step_type_2),
            has_members: member.is_some(),
            derived: derived.map_or(Ok(255), |octet| product.u8(octet))?,
        };
        let number = member.map_or(Ok(0), |octet| product.u8(octet))?;
        Ok(Product { key, at: [[number.into(), 0.0], [time as f64, 0.0], [step as f64, 0.0], level] })
    }

    /// Parses section 1 of edition 1.
    ///
    /// # Errors
    /// `Unsupported`, `Corrupt`.
    pub fn edition_1(section: &Section<'_>) -> Result<Product> {
        const ECMWF: u8 = 98;
        let centre = section.u8(5)?;
        let year = 100 * (i64::from(section.u8(25)?) - 1) + i64::from(section.u8(13)?);
        let clock = [14, 15, 16, 17].map(|octet| section.u8(octet));
        let [month, day, hour, minute] = clock;
        let time = seconds(year, [month?, day?, hour?, minute?, 0])?;
        let unit = time_unit(section.u8(18)?, true)?;
        let (first, second, range) = (section.u8(19)?, section.u8(20)?, section.u8(21)?);
        let (step, step_type) = match range {
            0 | 1 => (first.into(), "instant".to_owned()),
            10 => (i64::from(section.u16(19)?), "instant".to_owned()),
            2 => (second.into(), "range".to_owned()),
            3 => (second.into(), "avg".to_owned()),
            4 => (second.into(), "accum".to_owned()),
            5 => (second.into(), "diff".to_owned()),
            _ => (first.into(), format!("timeRangeIndicator{range}")),
        };
        let surface = section.u8(10)?;
        let is_layer = matches!(surface, 101 | 104 | 106 | 108 | 110 | 112 | 114 | 116 | 121 | 128 | 141);
        let level = match is_layer {
            true => [section.u8(11)?.into(), section.u8(12)?.into()],
            false => [section.u16(11)?.into(), 0.0],
        };
        // The local section of ECMWF with members of ensembles.
        let has_local = centre == ECMWF && section.0.len() >= 51 && section.u8(41)? == 1;
        let kind = if has_local { section.u8(43)? } else { 0 };
        let has_members = has_local && section.u8(51)? > 0;
        let number = if has_members { section.u8(50)? } else { 0 };
        let key = ProductKey {
            parameter: Parameter {
                edition: 1,
                centre: centre.into(),
                // The first versions of WMO's table have the same numbers.
                number: vec![section.u8(4)?.max(2), section.u8(9)?],
            },
            level_type: level_type_1(surface),
            surface,
            statistic: Some(range).filter(|range| !matches!(range, 0 | 1 | 10)),
            step_type,
            has_members,
            // Mean and standard deviation of an ensemble.
            derived: if matches!(kind, 17 | 18) { kind } else { 0 },
        };
        let step = step * unit;
        Ok(Product { key, at: [[number.into(), 0.0], [time as f64, 0.0], [step as f64, 0.0], level] })
    }
}

/// Seven octets: year, month, day, hour, minute and second.
fn date_time(section: &Section<'_>, octet: usize) -> Result<i64> {
    let rest: [u8; 5] = section.bytes(octet + 2)?;
    seconds(section.u16(octet)?.into(), rest)
}

/// Seconds since 1970.
fn seconds(year: i64, [month, day, hour, minute, second]: [u8; 5]) -> Result<i64> {
    let is_valid =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour <= 24 && minute < 60 && second <= 60;
    if !is_valid || year < 0 {
        return Err(Error::unsupported("its time is not a date"));
    }
    // Years from March, so that a leap day is the last of a year.
    let (month, year) = match month {
        1 | 2 => (i64::from(month) + 9, year - 1),
        _ => (i64::from(month) - 3, year),
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + i64::from(day) - 1 - 719_468;
    Ok(((days * 24 + i64::from(hour)) * 60 + i64::from(minute)) * 60 + i64::from(second))
}

/// The seconds of a unit of time.
fn time_unit(code: u8, is_edition_1: bool) -> Result<i64> {
    const HOUR: i64 = 3600;
    Ok(match code {
        0 => 60,
        1 => HOUR,
        2 => 24 * HOUR,
        10 => 3 * HOUR,
        11 => 6 * HOUR,
        12 => 12 * HOUR,
        13 if is_edition_1 => HOUR / 4,
        14 if is_edition_1 => HOUR / 2,
        13 | 254 => 1,
        _ => {
            return Err(Error::unsupported("its step is in months or years, which have no fixed length"));
        }
    })
}

fn step_type_2(statistic: u8) -> String {
    match statistic {
        0 => "avg".to_owned(),
        1 => "accum".to_owned(),
        2 => "max".to_owned(),
        3 => "min".to_owned(),
        4 => "diff".to_owned(),
        5 => "rms".to_owned(),
        6 => "sd".to_owned(),
        7 => "cov".to_owned(),
        9 => "ratio".to_owned(),
        _ => format!("statistic{statistic}"),
    }
}

/// The types of level from 1 to 9, which both editions have.
const COMMON_LEVELS: [&str; 9] = [
    "surface",
    "cloudBase",
    "cloudTop",
    "isothermZero",
    "adiabaticCondensation",
    "maxWind",
    "tropopause",
    "nominalTop",
    "seaBottom",
];

/// The type and value of the level of edition 2.
fn level_2(product: &Section<'_>) -> Result<(String, Position)> {
    let [first, second] = [23, 29].map(|octet| -> Result<(u8, f64)> {
        let (kind, value) = (product.u8(octet)?, product.u32(octet + 2)?);
        if value == u32::MAX || kind == 255 {
            return Ok((kind, 0.0));
        }
        // Divided, because 10^-1 is not exact.
        let factor = product.i8(octet + 1)?;
        let value = f64::from(product.i32(octet + 2)?);
        Ok((kind, if factor > 0 { value / 10f64.powi(factor) } else { value * 10f64.powi(-factor) }))
    });
    let ((kind, value), (second_kind, second_value)) = (first?, second?);
    let name = match kind {
        1 if second_kind == 8 => "entireAtmosphere",
        1..=9 => COMMON_LEVELS[usize::from(kind) - 1],
        10 => "atmosphere",
        20 => "isothermal",
        // As in ecCodes.
        100 if second_kind == 255 && (value >= 100.0 || value == 0.0) => {
            return Ok(("isobaricInhPa".to_owned(), [value / 100.0, 0.0]));
        }
        100 if second_kind == 255 => "isobaricInPa",
        100 => "isobaric",
        101 => "meanSea",
        102 => "heightAboveSea",
        103 => "heightAboveGround",
        104 => "sigma",
        105 => "hybrid",
        106 => "depthBelowLand",
        107 => "theta",
        108 => "pressureFromGround",
        109 => "potentialVorticity",
        111 => "eta",
        114 => "snow",
        118 => "hybridHeight",
        119 => "hybridPressure",
        150 => "generalVertical",
        151 => "soil",
        152 => "seaIce",
        160 => "depthBelowSea",
        168 => "oceanModel",
        _ => return Ok((format!("level{kind}"), [value, second_value])),
    };
    let layer = if second_kind == kind { "Layer" } else { "" };
    Ok((format!("{name}{layer}"), [value, second_value]))
}

fn level_type_1(surface: u8) -> String {
    let name = match surface {
        1..=9 => COMMON_LEVELS[usize::from(surface) - 1],
        100 => "isobaricInhPa",
        101 => "isobaricLayer",
        102 => "meanSea",
        103 => "heightAboveSea",
        104 => "heightAboveSeaLayer",
        105 => "heightAboveGround",
        106 => "heightAboveGroundLayer",
        107 => "sigma",
        108 => "sigmaLayer",
        109 => "hybrid",
        110 => "hybridLayer",
        111 => "depthBelowLand",
        112 => "depthBelowLandLayer",
        113 => "theta",
        114 => "thetaLayer",
        115 => "pressureFromGround",
        116 => "pressureFromGroundLayer",
        117 => "potentialVorticity",
        160 => "depthBelowSea",
        200 => "entireAtmosphere",
        201 => "entireOcean",
        210 => "isobaricInPa",
        _ => return format!("level{surface}"),
    };
    name.to_owned()
}
