use super::messages::{self, LocalFile};
use super::parameters::{Details, Parameter};
use super::read;
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
