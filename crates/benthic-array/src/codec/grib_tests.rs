use super::decode;
use benthic_core::ErrorKind;
use benthic_testkit::seed;
use proptest::prelude::{ProptestConfig, any, prop_assert_eq};
use proptest::{collection, proptest};

/// Made by `tests/grib/make.py`: a message for each packing, and their values as ecCodes decodes
/// them.
const MESSAGES: &[u8] = include_bytes!("../../tests/grib/packings.grib");
const VALUES: &[u8] = include_bytes!("../../tests/grib/packings.f32");
const POINTS: usize = 120;

/// The bytes of a chunk for each message.
fn chunks() -> Vec<Vec<u8>> {
    let mut rest = MESSAGES;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let is_edition_1 = rest[7] == 1;
        let len = match is_edition_1 {
            true => u32::from_be_bytes([0, rest[4], rest[5], rest[6]]) as usize,
            false => u64::from_be_bytes(*rest[8..].first_chunk().unwrap()) as usize,
        };
        let message = &rest[..len];
        rest = &rest[len..];
        let mut at = 16;
        while !is_edition_1 && message[at + 4] != 5 {
            at += u32::from_be_bytes(*message[at..].first_chunk().unwrap()) as usize;
        }
        chunks.push(if is_edition_1 { message.to_vec() } else { message[at..len - 4].to_vec() });
    }
    chunks
}

fn decoded(chunk: &[u8], points: usize) -> benthic_core::Result<Vec<f32>> {
    let data = decode(chunk, 4, 0, 4 * points, &mut || Ok(()))?;
    assert_eq!(data.len(), 4 * points);
    Ok(data.chunks_exact(4).map(|bytes| f32::from_le_bytes(*bytes.first_chunk().unwrap())).collect())
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| if value.is_nan() { u32::MAX } else { value.to_bits() }).collect()
}

#[test]
fn every_packing_has_the_values_of_eccodes() {
    let expected: Vec<f32> =
        VALUES.chunks_exact(4).map(|bytes| f32::from_le_bytes(*bytes.first_chunk().unwrap())).collect();
    let chunks = chunks();
    assert_eq!(chunks.len(), expected.len() / POINTS);
    assert!(expected.iter().any(|value| value.is_nan()));
    for (index, (chunk, expected)) in chunks.iter().zip(expected.chunks(POINTS)).enumerate() {
        assert_eq!(bits(&decoded(chunk, POINTS).unwrap()), bits(expected), "message {index}");
        let other_count = decoded(chunk, POINTS + 1);
        assert!(chunk.starts_with(b"GRIB") || other_count.is_err(), "message {index}");
    }
}

#[test]
fn damage_is_an_error_or_other_values() {
    let mut random = seed::one();
    let mut next = |len: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % len
    };
    for chunk in chunks() {
        for len in 0..chunk.len() {
            // The padding at the end has no values.
            let cut = decoded(&chunk[..len], POINTS);
            assert!(len + 8 > chunk.len() || cut.unwrap_err().kind() == ErrorKind::Corrupt, "{len}");
        }
        for _ in 0..500 {
            let mut damaged = chunk.clone();
            for _ in 0..=next(3) {
                let (at, bit) = (next(chunk.len()), next(8));
                damaged[at] ^= 1 << bit;
            }
            if let Err(error) = decoded(&damaged, POINTS) {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
            }
        }
    }
}

#[test]
fn float64_and_alternating_rows_are_kept() {
    let chunk = chunks().swap_remove(9);
    let plain = decode(&chunk, 8, 0, 8 * POINTS, &mut || Ok(())).unwrap();
    let turned = decode(&chunk, 8, 12, 8 * POINTS, &mut || Ok(())).unwrap();
    let numbers = |data: &[u8]| -> Vec<f64> {
        data.chunks_exact(8).map(|bytes| f64::from_le_bytes(*bytes.first_chunk().unwrap())).collect()
    };
    let (mut plain, turned) = (numbers(&plain), numbers(&turned));
    assert!(plain.iter().any(|value| f64::from(*value as f32) != *value));
    plain.chunks_mut(12).skip(1).step_by(2).for_each(<[f64]>::reverse);
    assert_eq!(plain, turned);
}

/// Writes numbers without padding.
#[derive(Default)]
struct BitWriter {
    data: Vec<u8>,
    len: usize,
}

impl BitWriter {
    fn write(&mut self, number: u64, bits: u32) {
        for bit in (0..bits).rev() {
            if self.len.is_multiple_of(8) {
                self.data.push(0);
            }
            let last = self.data.len() - 1;
            self.data[last] |= ((number >> bit & 1) as u8) << (7 - self.len % 8);
            self.len += 1;
        }
    }

    fn unary(&mut self, zeros: u64) {
        (0..zeros).for_each(|_| self.write(0, 1));
        self.write(1, 1);
    }

    fn pad(&mut self) {
        self.len = self.data.len() * 8;
    }
}

fn section(number: u8, body: &[u8]) -> Vec<u8> {
    let mut section = (body.len() as u32 + 5).to_be_bytes().to_vec();
    section.push(number);
    section.extend_from_slice(body);
    section
}

/// Sections 5 to 7. A value is the integer / 4 + 10.
fn field(
    template: u16,
    count: usize,
    bits: u8,
    rest: &[u8],
    bitmap: Option<&[bool]>,
    data: &[u8],
) -> Vec<u8> {
    let mut body = (count as u32).to_be_bytes().to_vec();
    body.extend(template.to_be_bytes());
    body.extend(10f32.to_be_bytes());
    body.extend(0x8002_u16.to_be_bytes());
    body.extend(0u16.to_be_bytes());
    body.push(bits);
    body.extend_from_slice(rest);
    let mut chunk = section(5, &body);
    chunk.extend(match bitmap {
        None => section(6, &[255]),
        Some(bitmap) => {
            let mut writer = BitWriter::default();
            writer.write(0, 8);
            bitmap.iter().for_each(|bit| writer.write((*bit).into(), 1));
            section(6, &writer.data)
        }
    });
    chunk.extend(section(7, data));
    chunk
}

fn value(integer: u64) -> f32 {
    integer as f32 / 4.0 + 10.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if seed::is_long() { 20_000 } else { 500 }))]

    #[test]
    fn simple_packing_is_undone(
        values in collection::vec(any::<(u32, bool)>(), 1..100),
        width in 1u32..32,
        has_bitmap: bool,
    ) {
        let mut writer = BitWriter::default();
        let mut expected = Vec::new();
        let bitmap: Vec<bool> = values.iter().map(|(_, is_present)| *is_present || !has_bitmap).collect();
        for ((number, _), is_present) in values.iter().zip(&bitmap) {
            let number = u64::from(number >> (32 - width));
            if *is_present {
                writer.write(number, width);
            }
            let scaled = (number as f64 / 4.0 + 10.0) as f32;
            expected.push(if *is_present { scaled } else { f32::NAN });
        }
        let count = bitmap.iter().filter(|is_present| **is_present).count();
        let bitmap = has_bitmap.then_some(&bitmap[..]);
        let chunk = field(0, count, width as u8, &[0], bitmap, &writer.data);
        prop_assert_eq!(bits(&decoded(&chunk, values.len()).unwrap()), bits(&expected));
    }

    /// Groups of random lengths, with and without differences, and with missing values among the
    /// others.
    #[test]
    fn complex_packing_is_undone(
        groups in collection::vec(collection::vec((0u64..1 << 16, 0u8..8), 1..9), 2..12),
        order in 0usize..3,
        missing_kinds in 0u64..3,
    ) {
        let mut integers: Vec<Option<u64>> = groups
            .iter()
            .flatten()
            .map(|(number, kind)| (missing_kinds == 0 || *kind > 0).then_some(*number))
            .collect();
        let expected: Vec<f32> = integers.iter().map(|number| number.map_or(f32::NAN, value)).collect();
        // Differences of the values that are present, and the smallest of them.
        let present: Vec<i64> = integers.iter().flatten().map(|number| *number as i64).collect();
        let difference = |at: usize| match order {
            1 => present[at] - present[at - 1],
            2 => present[at] - 2 * present[at - 1] + present[at - 2],
            _ => present[at],
        };
        let smallest = (order..present.len()).map(difference).min().unwrap_or(0);
        for (at, number) in integers.iter_mut().flatten().enumerate() {
            *number = match (order, at < order) {
                (0, _) => *number,
                (_, true) => 0,
                (_, false) => (difference(at) - smallest) as u64,
            };
        }
        let mut writer = BitWriter::default();
        for first in 0..order {
            writer.write(present.get(first).map_or(0, |number| *number as u64), 24);
        }
        if order > 0 {
            writer.write(u64::from(smallest < 0) << 23 | smallest.unsigned_abs(), 24);
        }
        // A reference must not look like a missing value.
        let reference_bits = 20;
        let mut rest = &integers[..];
        let parts: Vec<(u64, u32, &[Option<u64>])> = groups
            .iter()
            .map(|group| {
                let (part, after) = rest.split_at(group.len());
                rest = after;
                let reference = part.iter().flatten().min().copied().unwrap_or((1 << reference_bits) - 1);
                let largest = part.iter().flatten().max().map_or(0, |largest| largest - reference);
                let has_missing = part.iter().any(Option::is_none);
                let is_constant = largest == 0 && (!has_missing || part.iter().all(Option::is_none));
                let width = (0..).find(|width| largest + missing_kinds < 1u64 << width).unwrap();
                (reference, if is_constant { 0 } else { width }, part)
            })
            .collect();
        parts.iter().for_each(|(reference, ..)| writer.write(*reference, reference_bits));
        writer.pad();
        parts.iter().for_each(|(_, width, _)| writer.write((*width).into(), 5));
        writer.pad();
        parts.iter().for_each(|(.., part)| writer.write(part.len() as u64 - 1, 4));
        writer.pad();
        for (reference, width, part) in &parts {
            for number in *part {
                let largest = (1u64 << width) - 1;
                writer.write(number.map_or(largest, |number| number - reference), *width);
            }
        }
        let mut template = vec![0, 1, missing_kinds as u8];
        template.extend([0; 8]);
        template.extend((parts.len() as u32).to_be_bytes());
        template.extend([0, 5]);
        template.extend(1u32.to_be_bytes());
        template.push(1);
        template.extend((parts.last().unwrap().2.len() as u32).to_be_bytes());
        template.push(4);
        if order > 0 {
            template.extend([order as u8, 3]);
        }
        let number = if order > 0 { 3 } else { 2 };
        let chunk = field(number, expected.len(), reference_bits as u8, &template, None, &writer.data);
        prop_assert_eq!(bits(&decoded(&chunk, expected.len()).unwrap()), bits(&expected));
    }

    /// Every code of the adaptive entropy coding, chosen at random for each block.
    #[test]
    fn ccsds_packing_is_undone(
        values in collection::vec(0u64..200, 1..200),
        codes in collection::vec(any::<u8>(), 200),
        block in 4usize..9,
        interval in 1usize..5,
        flags in 0u8..4,
        sample_bits in 8u32..20,
    ) {
        let block = 2 * block;
        let (has_differences, pads) = (flags & 1 == 1, flags & 2 == 2);
        let largest = (1u64 << sample_bits) - 1;
        let code_bits = if sample_bits > 16 { 5 } else if sample_bits > 8 { 4 } else { 3 };
        let mut samples = values.clone();
        samples.resize(values.len().div_ceil(block) * block, values[values.len() - 1]);
        let mut writer = BitWriter::default();
        let mut last = 0u64;
        for (index, part) in samples.chunks(block).enumerate() {
            let is_first = index % interval == 0;
            if is_first && pads && index > 0 {
                writer.pad();
            }
            let mut mapped = Vec::new();
            for (at, sample) in part.iter().enumerate() {
                mapped.push(if !has_differences || (is_first && at == 0) {
                    *sample
                } else {
                    // CCSDS 121.0-B, 3.2.
                    let theta = last.min(largest - last);
                    let difference = sample.abs_diff(last);
                    match (difference <= theta, *sample >= last) {
                        (true, true) => 2 * difference,
                        (true, false) => 2 * difference - 1,
                        (false, _) => theta + difference,
                    }
                });
                last = *sample;
            }
            let first = usize::from(has_differences && is_first);
            let rest = &mapped[first..];
            let code = codes[index];
            if code % 4 == 0 && rest.iter().all(|number| *number == 0) {
                writer.write(0, code_bits + 1);
                (0..first).for_each(|_| writer.write(mapped[0], sample_bits));
                writer.unary(0);
            } else if code % 4 == 1 && rest.iter().all(|number| *number < 7) {
                writer.write(1, code_bits + 1);
                (0..first).for_each(|_| writer.write(mapped[0], sample_bits));
                let mut pairs = mapped.clone();
                if first == 1 {
                    // The reference is in no pair.
                    pairs[0] = 0;
                }
                for pair in pairs.chunks(2) {
                    let sum = pair[0] + pair[1];
                    writer.unary(sum * (sum + 1) / 2 + pair[1]);
                }
            } else if code % 4 == 2 {
                writer.write((1 << code_bits) - 1, code_bits);
                mapped.iter().for_each(|number| writer.write(*number, sample_bits));
            } else {
                let low_bits = u32::from(code) % ((1 << code_bits) - 2);
                writer.write(u64::from(low_bits) + 1, code_bits);
                (0..first).for_each(|_| writer.write(mapped[0], sample_bits));
                rest.iter().for_each(|number| writer.unary(number >> low_bits));
                rest.iter().for_each(|number| writer.write(*number, low_bits));
            }
        }
        let flags = if has_differences { 8 } else { 0 } | if pads { 32 } else { 0 };
        let template = [0, flags, block as u8, 0, interval as u8];
        let chunk = field(42, values.len(), sample_bits as u8, &template, None, &writer.data);
        let expected: Vec<f32> = values.iter().copied().map(value).collect();
        prop_assert_eq!(bits(&decoded(&chunk, values.len()).unwrap()), bits(&expected));
    }
}

#[test]
fn constant_fields_of_g2c_have_no_groups() {
    for template in [2, 3] {
        let chunk = field(template, POINTS, 0, &[0; 29], None, &[]);
        assert_eq!(decoded(&chunk, POINTS).unwrap(), [10.0; POINTS]);
    }
}

#[test]
fn counts_of_a_hostile_field_cost_nothing() {
    let corrupt = |chunk: &[u8]| {
        assert_eq!(decoded(chunk, POINTS).unwrap_err().kind(), ErrorKind::Corrupt);
    };
    // Four billion values without bits, and as many groups without values.
    corrupt(&field(0, u32::MAX as usize, 0, &[0], None, &[]));
    let groups = |count: u32, length_reference: u32, width: u8, octets: u8| {
        let mut template = vec![0, 1, 0];
        template.extend([0; 8]);
        template.extend(count.to_be_bytes());
        template.extend([width, 0]);
        template.extend(length_reference.to_be_bytes());
        template.push(0);
        template.extend(0u32.to_be_bytes());
        template.extend([0, 2, octets]);
        field(3, POINTS, 0, &template, None, &[0; 16])
    };
    corrupt(&groups(u32::MAX, 0, 0, 1));
    corrupt(&groups(POINTS as u32, 0, 0, 1));
    corrupt(&groups(1, u32::MAX, 255, 1));
    corrupt(&groups(1, u32::MAX, 32, 4));
    corrupt(&groups(1, u32::MAX, 0, 255));
    // A zero block at the end of an interval, and an endless unary number.
    let ccsds =
        |block: u8, interval: u8, data: &[u8]| field(42, POINTS, 8, &[0, 8, block, 0, interval], None, data);
    corrupt(&ccsds(8, 1, &[0, 0, 0, 1]));
    corrupt(&ccsds(8, 128, &[0; 1000]));
    corrupt(&ccsds(0, 128, &[0; 1000]));
    corrupt(&ccsds(65, 128, &[0; 1000]));
    corrupt(&ccsds(8, 0, &[0; 1000]));
    // The length of a section is 0, or larger than all bytes.
    corrupt(&[0, 0, 0, 0, 5, 0]);
    corrupt(&[255, 255, 255, 255, 5, 0]);
    corrupt(b"GRIB");
    corrupt(b"GRIB\xff\xff\xff\x01\xff\xff\xff");
}
