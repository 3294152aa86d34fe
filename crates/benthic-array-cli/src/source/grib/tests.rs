use super::messages::{self, LocalFile};
use super::parameters::{Details, Parameter};
use super::read;
use benthic_array::decoders::ByteRange;
use std::fs::{self, File};
use std::path::PathBuf;

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
