//! Names and units of parameters, as ecCodes and cfgrib have them.
//!
//! Source: the definitions of ecCodes (ECMWF, licence Apache-2.0), from which `parameters.py` makes
//! the table.

const TABLE: &str = include_str!("parameters.tsv");

/// The parameter whose values a field has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    pub edition: u8,
    pub centre: u16,
    /// Discipline, category and number of edition 2; version of the table and number of edition 1.
    pub number: Vec<u8>,
}

/// The properties on which a row of the table may depend.
pub struct Details {
    /// The type of the level.
    pub surface: u8,
    pub level: f64,
    /// How values of a period were made one.
    pub statistic: Option<u8>,
}

/// The name and attributes of an array.
pub struct Names {
    pub name: String,
    pub units: String,
    pub long_name: String,
    pub standard_name: Option<String>,
}

impl Parameter {
    /// The row of the table that fits best: that of the centre, with the most conditions.
    pub fn names(&self, details: &Details) -> Names {
        // ECMWF's tables of edition 1 in edition 2.
        let (edition, number) = match self.number[..] {
            [192, ref number @ ..] => (1, number),
            ref number => (self.edition, number),
        };
        let (edition, number) =
            (edition.to_string(), number.iter().map(u8::to_string).collect::<Vec<_>>().join("."));
        let fit = |row: &[&str; 10]| {
            let fits = |cell: &str, value: Option<f64>| match cell.parse::<f64>() {
                Ok(wanted) => (value == Some(wanted)).then_some(1),
                Err(_) => Some(0),
            };
            let conditions = [
                fits(row[1], Some(self.centre.into()))?,
                fits(row[3], Some(details.surface.into()))?,
                fits(row[4], Some(details.level))?,
                fits(row[5], details.statistic.map(f64::from))?,
            ];
            Some((conditions[0], conditions.iter().sum::<u32>()))
        };
        let is_candidate = |line: &&str| {
            let mut cells = line.split('\t');
            cells.next() == Some(&edition) && cells.nth(1) == Some(&number)
        };
        // Few rows are left to be parsed.
        let rows = TABLE.lines().filter(is_candidate).filter_map(|line| {
            let mut cells = line.split('\t');
            let row: [&str; 10] = std::array::from_fn(|_| cells.next().unwrap_or_default());
            fit(&row).map(|fit| (fit, row))
        });
        match rows.max_by_key(|(fit, _)| *fit) {
            Some((_, [.., name, units, long_name, standard_name])) => Names {
                name: name.to_owned(),
                units: units.to_owned(),
                long_name: long_name.to_owned(),
                standard_name: (!standard_name.is_empty()).then(|| standard_name.to_owned()),
            },
            None => Names {
                name: format!("parameter_{}", number.replace('.', "_")),
                units: "1".to_owned(),
                long_name: format!("GRIB parameter {number} of centre {}", self.centre),
                standard_name: None,
            },
        }
    }
}
