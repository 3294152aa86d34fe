use super::{Grid, gaussian_latitudes};
use crate::source::grib::octets::Section;
use benthic_core::ErrorKind;

/// Section 3 of edition 2 with a regular grid.
fn section(
    template: u16,
    size: [u32; 2],
    first: [i32; 2],
    last: [i32; 2],
    gaussian: u32,
    scan: u8,
) -> Vec<u8> {
    let signed = |number: i32| number.unsigned_abs() | u32::from(number < 0) << 31;
    let mut section = vec![0; 72];
    let mut put = |octet: usize, number: u32| {
        section[octet - 1..octet + 3].copy_from_slice(&number.to_be_bytes());
    };
    put(7, size[0].wrapping_mul(size[1]));
    put(31, size[0]);
    put(35, size[1]);
    put(43, u32::MAX);
    put(47, signed(first[0]));
    put(51, signed(first[1]));
    put(56, signed(last[0]));
    put(60, signed(last[1]));
    put(68, gaussian);
    section[12..14].copy_from_slice(&template.to_be_bytes());
    section[71] = scan;
    section
}

fn coordinates(section: &[u8]) -> Vec<(&'static str, Vec<f64>)> {
    let grid = Grid::edition_2(&Section(section)).unwrap();
    grid.axes.into_iter().map(|axis| (axis.name, axis.coordinates.unwrap_or_default())).collect()
}

#[test]
fn coordinates_go_from_the_first_to_the_last_point() {
    let global = section(0, [3600, 3], [100_000, 0], [-100_000, 359_900_000], 0, 0);
    let found = coordinates(&global);
    assert_eq!(found[0], ("latitude", vec![0.1, 0.0, -0.1]));
    assert_eq!((found[1].1[1], found[1].1[3], found[1].1[3599]), (0.1, 0.3, 359.9));
    // Across the meridian of 0, in both directions, and a circle whose ends are the same meridian.
    let across =
        |first, last, scan| coordinates(&section(0, [3, 1], [0, first], [0, last], 0, scan)).swap_remove(1).1;
    assert_eq!(across(350_000_000, 10_000_000, 0), [-10.0, 0.0, 10.0]);
    assert_eq!(across(-10_000_000, 10_000_000, 0), [-10.0, 0.0, 10.0]);
    assert_eq!(across(10_000_000, 350_000_000, 0x80), [10.0, 0.0, -10.0]);
    assert_eq!(across(0, 0, 0), [0.0, 180.0, 360.0]);
    assert_eq!(across(0, 0, 0x80), [0.0, -180.0, -360.0]);
    assert_eq!(across(0, 360_000_000, 0x80), [0.0, -180.0, -360.0]);
    // Columns after each other, and every other one backwards.
    let columns = section(0, [2, 3], [0, 0], [20_000_000, 5_000_000], 0, 0x70);
    let found = coordinates(&columns);
    assert_eq!(found, [("longitude", vec![0.0, 5.0]), ("latitude", vec![0.0, 10.0, 20.0])]);
    assert_eq!(Grid::edition_2(&Section(&columns)).unwrap().alternating, 3);
}

#[test]
fn gaussian_latitudes_are_those_of_the_tables() {
    let n32 = gaussian_latitudes(32);
    for (index, expected) in [(0, 87.863_798_839_232_6), (1, 85.096_526_988_318_2), (31, 1.395_306_910_819_5)]
    {
        assert!((n32[index] - expected).abs() < 1e-9, "{index}: {}", n32[index]);
        assert!((n32[63 - index] + expected).abs() < 1e-9);
    }
    // A part of the grid, from south to north.
    let part = section(40, [4, 3], [-1_395_307, 0], [4_185_921, 30_000_000], 32, 0x40);
    let found = coordinates(&part);
    assert_eq!(found[0].0, "latitude");
    assert_eq!(found[0].1, [n32[32], n32[31], n32[30]]);
    let beyond = section(40, [4, 64], [85_096_526, 0], [-87_863_799, 30_000_000], 32, 0);
    assert_eq!(Grid::edition_2(&Section(&beyond)).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn other_grids_have_no_coordinates() {
    let lambert = section(30, [5, 4], [0; 2], [0; 2], 0, 0);
    assert_eq!(coordinates(&lambert), [("y", vec![]), ("x", vec![])]);
    let mut reduced = section(40, [u32::MAX, 64], [0; 2], [0; 2], 32, 0);
    reduced[6..10].copy_from_slice(&6114u32.to_be_bytes());
    assert_eq!(coordinates(&reduced), [("values", vec![])]);
    assert_eq!(Grid::edition_2(&Section(&reduced)).unwrap().points(), 6114);
}

#[test]
fn false_sizes_are_refused() {
    let kind = |section: &[u8]| Grid::edition_2(&Section(section)).unwrap_err().kind();
    // More than the limit, no points, and another number than rows and columns have.
    assert_eq!(kind(&section(0, [1 << 15, 1 << 14], [0; 2], [0; 2], 0, 0)), ErrorKind::Unsupported);
    assert_eq!(kind(&section(30, [0, 5], [0; 2], [0; 2], 0, 0)), ErrorKind::Corrupt);
    assert_eq!(kind(&section(0, [u32::MAX - 1, 0], [0; 2], [0; 2], 0, 0)), ErrorKind::Corrupt);
    assert_eq!(kind(&section(0, [1 << 16, 1 << 16], [0; 2], [0; 2], 0, 0)), ErrorKind::Unsupported);
    assert_eq!(kind(&section(40, [2, 2], [0; 2], [0; 2], u32::MAX, 0)), ErrorKind::Unsupported);
    // The lengths of the rows of a reduced grid begin at octet 0.
    let mut reduced = [0; 32];
    reduced[5..10].copy_from_slice(&[4, 255, 255, 0, 1]);
    assert_eq!(Grid::edition_1(&Section(&reduced)).unwrap_err().kind(), ErrorKind::Corrupt);
    for len in 0..72 {
        let cut = &section(0, [3, 3], [0; 2], [0; 2], 0, 0)[..len];
        assert_eq!(kind(cut), ErrorKind::Corrupt);
    }
}
