use super::messages::{self, LocalFile};
use super::octets::Section;
use super::parameters::{Details, Parameter};
use super::product::{Product, STEP};
use super::{Skipped, SourceGroup, read};
use benthic_array::decoders::ByteRange;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const ERA5: &[u8] = include_bytes!("../../../tests/it/fixtures/era5.grib");
const FORECAST: &[u8] = include_bytes!("../../../tests/it/fixtures/forecast.grib2");

fn name(edition: u8, centre: u16, number: &[u8], surface: u8, level: f64, statistic: Option<u8>) -> String {
    let parameter = Parameter { edition, centre, number: number.to_vec() };
    parameter.names(&Details { surface, level, statistic }).name
}

#[test]
fn parameters_have_the_names_of_cfgrib() {
    assert_eq!(name(2, 98, &[0, 0, 0], 100, 50_000.0, None), "t");
    assert_eq!(name(2, 98, &[0, 0, 0], 103, 2.0, None), "t2m");
    assert_eq!(name(2, 7, &[0, 0, 0], 103, 80.0, None), "t");
    assert_eq!(name(2, 7, &[0, 2, 2], 103, 10.0, None), "u10");
    assert_eq!(name(2, 7, &[0, 1, 8], 1, 0.0, Some(1)), "tp");
    assert_eq!(name(2, 98, &[0, 1, 193], 1, 0.0, Some(1)), "tp");
    assert_eq!(name(1, 98, &[128, 167], 1, 0.0, None), "t2m");
    assert_eq!(name(1, 7, &[2, 11], 105, 2.0, None), "t");
    // ECMWF's number in edition 2.
    assert_eq!(name(2, 98, &[192, 128, 34], 1, 0.0, None), "sst");
    assert_eq!(name(2, 250, &[9, 99, 200], 1, 0.0, None), "parameter_9_99_200");
}

/// A message whose second field has the bitmap of the first.
fn two_fields() -> Vec<u8> {
    let message = FORECAST;
    let section = |at: usize| u32::from_be_bytes(*message[at..].first_chunk().unwrap()) as usize;
    let mut two = message[..16].to_vec();
    let mut at = 16;
    let mut product = Vec::new();
    while &message[at..at + 4] != b"7777" {
        let whole = &message[at..at + section(at)];
        match whole[4] {
            4 => product = whole.to_vec(),
            5 => {
                two.extend_from_slice(&product);
                // All of the 1,080 points have a value, except for the first one.
                let mut representation = whole.to_vec();
                representation[5..9].copy_from_slice(&1079u32.to_be_bytes());
                let mut bitmap = vec![0, 0, 0, 141, 6, 0, 0x7f];
                bitmap.resize(141, 0xff);
                two.extend_from_slice(&representation);
                two.extend_from_slice(&bitmap);
            }
            6 => {}
            7 => {
                two.extend_from_slice(whole);
                let representation = two.len();
                // Another parameter, and the same bitmap.
                product[10] = 6;
                two.extend_from_slice(&product);
                let at = two.windows(5).position(|window| window == [0, 0, 0, 21, 5]).unwrap();
                two.extend_from_within(at..at + 21);
                two.extend_from_slice(&[0, 0, 0, 6, 6, 254]);
                two.extend_from_slice(whole);
                assert!(at < representation);
            }
            _ => two.extend_from_slice(whole),
        }
        at += whole.len();
    }
    two.extend_from_slice(b"7777");
    let len = two.len() as u64;
    two[8..16].copy_from_slice(&len.to_be_bytes());
    two
}

fn file(name: &str, data: &[u8]) -> (PathBuf, LocalFile) {
    let path = std::env::temp_dir().join(format!("benthic-{name}-{}", std::process::id()));
    fs::write(&path, data).unwrap();
    let local =
        LocalFile { file: File::open(&path).unwrap(), path: path.clone(), size_bytes: data.len() as u64 };
    (path, local)
}

#[test]
fn fields_of_a_message_share_a_bitmap() {
    let (path, local) = file("two.grib2", &two_fields());
    let ranges: Vec<ByteRange> = messages::read(&local)
        .unwrap()
        .fields
        .into_iter()
        .map(|field| field.content.unwrap().1.range)
        .collect();
    assert_eq!(ranges.len(), 2);
    assert!(ranges[1].offset_bytes < ranges[0].offset_bytes + ranges[0].len_bytes);
    let group = read(File::open(&path).unwrap(), &path, &mut Vec::new()).unwrap();
    fs::remove_file(&path).unwrap();
    let names: Vec<&str> = group.arrays.iter().map(|array| &array.name[..]).collect();
    assert!(names.contains(&"t2m") && names.contains(&"d2m"), "{names:?}");
    let values = |name: &str| {
        let array = group.arrays.iter().find(|array| array.name == name).unwrap();
        let data = array.elements.read(&[0, 0], &[27, 40]).unwrap();
        data.chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(*bytes.first_chunk().unwrap()))
            .collect::<Vec<_>>()
    };
    let (first, second) = (values("t2m"), values("d2m"));
    assert!(first[0].is_nan() && second[0].is_nan());
    assert!(first[1..].iter().all(|value| value.is_finite()));
    assert_eq!(first[1..], second[1..]);
}

/// No header makes the program panic, or read more than it should.
#[test]
fn damaged_headers_are_reported_or_read() {
    const HEADER_BYTES: usize = 200;
    for data in [ERA5, FORECAST] {
        let is_start = |at: &usize| data[*at..].starts_with(messages::MAGIC);
        let starts: Vec<usize> = (0..data.len()).filter(is_start).chain([data.len()]).collect();
        for message in starts.windows(2).map(|bounds| &data[bounds[0]..bounds[1]]) {
            let (path, local) = file("headers", message);
            let writer = OpenOptions::new().write(true).open(&path).unwrap();
            for (at, byte) in (4..HEADER_BYTES.min(message.len())).flat_map(|at| [(at, 0), (at, 255)]) {
                writer.write_all_at(&[byte], at as u64).unwrap();
                let group = read(local.file.try_clone().unwrap(), &path, &mut Vec::new());
                for array in group.into_iter().flat_map(|group| group.arrays) {
                    if array.shape.iter().product::<u64>() < 1 << 12 {
                        drop(array.elements.read(&vec![0; array.shape.len()], &array.shape));
                    }
                }
                writer.write_all_at(&message[at..=at], at as u64).unwrap();
            }
            fs::remove_file(&path).unwrap();
        }
    }
}

/// A message of edition 1 with 4,096 × 3,000 points of 16 bits.
#[test]
fn large_messages_of_edition_1_are_read() {
    const UNIT: u64 = 120;
    let section = |at: usize| u32::from_be_bytes([0, ERA5[at], ERA5[at + 1], ERA5[at + 2]]) as usize;
    let grid = 8 + section(8);
    let values = grid + section(grid);
    let mut header = ERA5[..values + 11].to_vec();
    header[grid + 6..grid + 10].copy_from_slice(&[16, 0, 11, 184]);
    header[values + 3] = 0;
    header[values + 10] = 16;
    let size_bytes = (values + 11 + 2 * 4096 * 3000 + 1 + 4) as u64;
    // The length counts units; the last section tells how many bytes too many these are.
    let units = size_bytes.div_ceil(UNIT);
    header[4..7].copy_from_slice(&(units as u32 | 0x80_0000).to_be_bytes()[1..]);
    header[values..values + 3].copy_from_slice(&[0, 0, (units * UNIT - size_bytes + 4) as u8]);
    let (path, mut local) = file("large.grib", &header);
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    writer.write_all_at(b"7777", size_bytes - 4).unwrap();
    local.size_bytes = size_bytes;
    let fields = messages::read(&local).unwrap().fields;
    fs::remove_file(&path).unwrap();
    let (grid, values) = fields[0].content.as_ref().unwrap();
    assert_eq!((fields.len(), grid.points()), (1, 4096 * 3000));
    assert_eq!(values.range, ByteRange { offset_bytes: 0, len_bytes: size_bytes });
}

/// A file of copies of the first message of edition 1, whose section 1 has these octets.
fn copies(octets: &[&[(usize, u8)]]) -> Vec<u8> {
    let len = u32::from_be_bytes([0, ERA5[4], ERA5[5], ERA5[6]]) as usize;
    let copy = |octets: &&[(usize, u8)]| {
        let mut message = ERA5[..len].to_vec();
        octets.iter().for_each(|(octet, byte)| message[8 + octet - 1] = *byte);
        message
    };
    octets.iter().flat_map(copy).collect()
}

fn read_all(name: &str, data: &[u8]) -> (benthic_core::Result<SourceGroup>, Vec<Skipped>) {
    let (path, local) = file(name, data);
    let mut skipped = Vec::new();
    let group = read(local.file, &path, &mut skipped);
    fs::remove_file(&path).unwrap();
    (group, skipped)
}

#[test]
fn layers_with_the_same_first_bound_have_their_middles() {
    // NCEP has such sigma layers.
    let level_types = |layers: [[u8; 2]; 3]| {
        let octets = layers.map(|[top, bottom]| [(10, 108), (11, top), (12, bottom)]);
        let data = copies(&octets.each_ref().map(|octets| &octets[..]));
        let group = read_all("layers.grib", &data).0.unwrap();
        let levels = group.arrays.iter().find(|array| array.name == "sigmaLayer").unwrap();
        let data = levels.elements.read(&[0], &[3]).unwrap();
        data.chunks_exact(8)
            .map(|bytes| f64::from_le_bytes(*bytes.first_chunk().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(level_types([[44, 100], [44, 72], [33, 100]]), [58.0, 66.5, 72.0]);
    assert_eq!(level_types([[44, 72], [72, 94], [33, 44]]), [33.0, 44.0, 72.0]);
}

#[test]
fn few_fields_in_many_cells_are_skipped() {
    // As many hours, steps and levels.
    let octets: Vec<[(usize, u8); 3]> = (0..24).map(|at| [(15 + 1, at), (19, at), (12, at)]).collect();
    let octets: Vec<&[(usize, u8)]> = octets.iter().map(|octets| &octets[..]).collect();
    let (group, skipped) = read_all("cells.grib", &copies(&octets));
    let reason = group.err().unwrap().to_string();
    assert!(reason.contains("24 fields") && reason.contains("13824 places"), "{reason}");
    assert_eq!(skipped.len(), 1);
    assert_eq!(read_all("cells.grib", &copies(&octets[..8])).1.len(), 0);
}

#[test]
fn a_message_that_arrays_cannot_have_does_not_concern_the_others() {
    let grid = FORECAST.windows(5).position(|window| window == [0, 0, 0, 72, 3]).unwrap();
    // The edition, the number of columns, and a kind of grid whose points are too many.
    for octets in [&[(7, 3)][..], &[(grid + 30, 1)], &[(grid + 6, 5), (grid + 12, 255)]] {
        let mut data = FORECAST.to_vec();
        octets.iter().for_each(|(at, byte)| data[*at] = *byte);
        let (group, skipped) = read_all("one.grib2", &data);
        assert!(group.unwrap().arrays.iter().any(|array| array.name == "r"), "{octets:?}");
        assert_eq!(skipped.len(), 1, "{octets:?}");
    }
    // The same reason of the same parameter, on two types of level, is noted once.
    let grids = copies(&[&[(10, 100)], &[(10, 109)]]);
    let mut other_grids = grids.clone();
    let kind = 8 + usize::from(grids[10]) + 5;
    other_grids[kind] = 90;
    other_grids[grids.len() / 2 + kind] = 90;
    let (group, skipped) = read_all("grids.grib", &[&other_grids, FORECAST].concat());
    assert!(group.is_ok());
    assert_eq!(skipped.len(), 1);
}

#[test]
fn the_step_of_a_period_needs_no_unit() {
    let mut identification = [0; 21];
    identification[12..16].copy_from_slice(&[7, 232, 2, 1]);
    let mut product = [0; 58];
    product[8] = 8;
    // Months.
    product[17] = 3;
    product[34..38].copy_from_slice(&[7, 232, 3, 1]);
    let mean = Product::edition_2(0, &Section(&identification), &Section(&product)).unwrap();
    assert_eq!(mean.at[STEP], [29.0 * 86_400.0, 0.0]);
    product[8] = 0;
    assert!(Product::edition_2(0, &Section(&identification), &Section(&product)).is_err());
}

#[test]
fn a_bitmap_far_before_its_field_has_a_reason_of_its_own() {
    const GAP_BYTES: usize = 33 << 20;
    let two = two_fields();
    let section = |at: usize| u32::from_be_bytes(*two[at..].first_chunk().unwrap()) as usize;
    let mut at = 16;
    while two[at + 4] != 7 {
        at += section(at);
    }
    // The first field has more bytes than it needs.
    let (head, tail) = two.split_at(at + section(at));
    let mut far = head.to_vec();
    far[at..at + 4].copy_from_slice(&((section(at) + GAP_BYTES) as u32).to_be_bytes());
    far[8..16].copy_from_slice(&((two.len() + GAP_BYTES) as u64).to_be_bytes());
    far.resize(head.len() + GAP_BYTES, 0);
    far.extend_from_slice(tail);
    let group = read_all("far.grib2", &far).0.unwrap();
    let second = group.arrays.iter().find(|array| array.name == "d2m").unwrap();
    let error = second.elements.chunks().err().unwrap();
    assert!(error.message().contains("grib_copy"), "{error}");
}
