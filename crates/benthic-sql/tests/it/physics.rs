//! The queries of `docs/guide/physics.md`: their answers are those of loops, in every way, and
//! their selections are pushed.

use crate::fixtures::{answer, append, create, memory_store, pool, session, ways};
use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Int32Array, Int64Array, ListArray, RecordBatch, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Float64Type};
use benthic_core::pushdown::Pushdown;
use benthic_program::noise::Noise;
use benthic_sql::session::Settings;
use benthic_table::Definition;
use benthic_testkit::seed;
use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::PI;
use std::sync::Arc;

const EVENTS: usize = 2_000;
const OBJECTS: usize = 4;

/// A jet, or a lepton.
#[derive(Clone, Copy)]
struct Particle {
    pt: f32,
    eta: f32,
    phi: f32,
    /// Of jets.
    mass: f32,
    btag: f32,
    /// Of leptons.
    charge: i32,
}

struct Event {
    met_pt: f32,
    met_phi: f32,
    jets: Vec<Particle>,
    muons: Vec<Particle>,
    electrons: Vec<Particle>,
}

/// Events in the layout of NanoAOD.
fn events(noise: &mut Noise) -> Vec<Event> {
    // Not uniform in any way that matters: most momenta are small, and some are large.
    fn between(noise: &mut Noise, low: f64, high: f64) -> f32 {
        (low + (high - low) * noise.below(1 << 20) as f64 / f64::from(1 << 20)) as f32
    }
    fn particles(noise: &mut Noise, most: u64, high: f64) -> Vec<Particle> {
        let count = noise.below(most + 1);
        let particle = |noise: &mut Noise| Particle {
            pt: between(noise, 2.0, high),
            eta: between(noise, -2.5, 2.5),
            phi: between(noise, -PI, PI),
            mass: between(noise, 1.0, 20.0),
            btag: between(noise, 0.0, 1.0),
            charge: if noise.below(2) == 0 { -1 } else { 1 },
        };
        (0..count).map(|_| particle(noise)).collect()
    }
    let event = |noise: &mut Noise| Event {
        met_pt: between(noise, 0.0, 150.0),
        met_phi: between(noise, -PI, PI),
        jets: particles(noise, 6, 120.0),
        muons: particles(noise, 3, 90.0),
        electrons: particles(noise, 3, 90.0),
    };
    (0..EVENTS).map(|_| event(noise)).collect()
}

fn batch(first: usize, events: &[Event]) -> RecordBatch {
    let floats = |values: Vec<f32>| -> ArrayRef { Arc::new(Float32Array::from(values)) };
    let lists = |of: &dyn Fn(&Event) -> &[Particle], are_jets: bool| -> ArrayRef {
        let all: Vec<Particle> = events.iter().flat_map(|event| of(event).to_vec()).collect();
        let of_all = |value: fn(&Particle) -> f32| floats(all.iter().map(value).collect());
        let mut columns = vec![
            ("pt", of_all(|particle| particle.pt)),
            ("eta", of_all(|particle| particle.eta)),
            ("phi", of_all(|particle| particle.phi)),
        ];
        if are_jets {
            columns.push(("mass", of_all(|particle| particle.mass)));
            columns.push(("btag", of_all(|particle| particle.btag)));
        } else {
            columns.push((
                "charge",
                Arc::new(all.iter().map(|lepton| Some(lepton.charge)).collect::<Int32Array>()),
            ));
        }
        let fields: Fields = columns
            .iter()
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
            .collect();
        let records = StructArray::new(fields, columns.into_iter().map(|(_, column)| column).collect(), None);
        let item = Arc::new(Field::new("element", records.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(events.iter().map(|event| of(event).len()));
        Arc::new(ListArray::new(item, offsets, Arc::new(records), None))
    };
    let numbers = (0..events.len()).map(|place| (first + place) as i64);
    RecordBatch::try_from_iter_with_nullable([
        ("event", Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef, true),
        ("MET_pt", floats(events.iter().map(|event| event.met_pt).collect()), true),
        ("MET_phi", floats(events.iter().map(|event| event.met_phi).collect()), true),
        ("Jet", lists(&|event| &event.jets, true), true),
        ("Muon", lists(&|event| &event.muons, false), true),
        ("Electron", lists(&|event| &event.electrons, false), true),
    ])
    .unwrap()
}

/// A histogram: the count for the lower bound of each bin.
type Histogram = BTreeMap<i64, i64>;

fn histogram(values: impl IntoIterator<Item = f64>, width: f64) -> Histogram {
    let mut bins = Histogram::new();
    for value in values {
        *bins.entry(((value / width).floor() * width) as i64).or_default() += 1;
    }
    bins
}

fn mass_squared(a: &Particle, b: &Particle) -> f64 {
    let (pts, eta, phi) = (
        f64::from(a.pt) * f64::from(b.pt),
        f64::from(a.eta) - f64::from(b.eta),
        f64::from(a.phi) - f64::from(b.phi),
    );
    2.0 * pts * (eta.cosh() - phi.cos())
}

/// Energy and momentum of a jet: e, px, py, pz.
fn momentum(jet: &Particle) -> [f64; 4] {
    let (pt, eta, phi, mass) =
        (f64::from(jet.pt), f64::from(jet.eta), f64::from(jet.phi), f64::from(jet.mass));
    [((pt * eta.cosh()).powi(2) + mass * mass).sqrt(), pt * phi.cos(), pt * phi.sin(), pt * eta.sinh()]
}

/// The transverse momentum and the greatest b-tag of the three jets whose mass is closest to that
/// of a top quark.
fn trijet(event: &Event) -> Option<(f64, f64)> {
    let mut best: Option<(f64, f64, f64)> = None;
    for (i, a) in event.jets.iter().enumerate() {
        for (k, b) in event.jets.iter().enumerate().skip(i + 1) {
            for c in event.jets.iter().skip(k + 1) {
                let sum = |part: usize| [a, b, c].map(|jet| momentum(jet)[part]).iter().sum::<f64>();
                let [e, px, py, pz] = [0, 1, 2, 3].map(sum);
                let mass = (e * e - px * px - py * py - pz * pz).max(0.0).sqrt();
                let btag = a.btag.max(b.btag).max(c.btag);
                let distance = (mass - 172.5).abs();
                if best.is_none_or(|(least, ..)| distance < least) {
                    best = Some((distance, px.hypot(py), btag.into()));
                }
            }
        }
    }
    best.map(|(_, pt, btag)| (pt, btag))
}

fn isolated_sum(event: &Event) -> Option<f64> {
    let is_near = |jet: &Particle, lepton: &Particle| {
        let eta = f64::from(jet.eta) - f64::from(lepton.eta);
        let phi = (f64::from(jet.phi) - f64::from(lepton.phi)).cos().acos();
        lepton.pt > 10.0 && eta * eta + phi * phi < 0.16
    };
    let leptons = || event.muons.iter().chain(&event.electrons);
    let jets = event.jets.iter().filter(|jet| jet.pt > 30.0 && !leptons().any(|lepton| is_near(jet, lepton)));
    jets.map(|jet| f64::from(jet.pt)).reduce(|sum, pt| sum + pt)
}

fn transverse_mass(event: &Event) -> Option<f64> {
    let leptons: Vec<(bool, &Particle)> = event
        .muons
        .iter()
        .map(|muon| (true, muon))
        .chain(event.electrons.iter().map(|e| (false, e)))
        .collect();
    if leptons.len() < 3 {
        return None;
    }
    let mut best: Option<(f64, [usize; 2])> = None;
    for (i, (is_muon, a)) in leptons.iter().enumerate() {
        for (k, (other_is_muon, b)) in leptons.iter().enumerate().skip(i + 1) {
            let distance = (mass_squared(a, b).sqrt() - 91.2).abs();
            if is_muon == other_is_muon
                && a.charge != b.charge
                && best.is_none_or(|(least, _)| distance < least)
            {
                best = Some((distance, [i, k]));
            }
        }
    }
    let (_, pair) = best?;
    let others = leptons.iter().enumerate().filter(|(place, _)| !pair.contains(place));
    let (_, (_, lepton)) = others.max_by(|(_, (_, a)), (_, (_, b))| a.pt.total_cmp(&b.pt))?;
    let phi = f64::from(lepton.phi) - f64::from(event.met_phi);
    Some((2.0 * f64::from(lepton.pt) * f64::from(event.met_pt) * (1.0 - phi.cos())).sqrt())
}

fn expected(events: &[Event]) -> [Histogram; 8] {
    let met = |event: &Event| f64::from(event.met_pt);
    let jets = || events.iter().flat_map(|event| &event.jets);
    let is_z = |event: &&Event| {
        let pairs = event.muons.iter().flat_map(|a| event.muons.iter().map(move |b| (a, b)));
        let mut pairs = pairs.filter(|(a, b)| a.charge > b.charge);
        pairs.any(|(a, b)| (3_600.0..=14_400.0).contains(&mass_squared(a, b)))
    };
    let two_jets = |event: &&Event| event.jets.iter().filter(|jet| jet.pt > 40.0).count() >= 2;
    [
        histogram(events.iter().map(met), 5.0),
        histogram(jets().map(|jet| jet.pt.into()), 10.0),
        histogram(jets().filter(|jet| jet.eta.abs() < 1.0).map(|jet| jet.pt.into()), 10.0),
        histogram(events.iter().filter(two_jets).map(met), 5.0),
        histogram(events.iter().filter(is_z).map(met), 5.0),
        histogram(events.iter().filter_map(trijet).map(|(pt, _)| pt), 20.0),
        histogram(events.iter().filter_map(isolated_sum), 20.0),
        histogram(events.iter().filter_map(transverse_mass), 10.0),
    ]
}

/// Asserts that the histograms are equal but for two values at bounds of bins: the queries compute
/// with single precision, as the events are stored, and the loops with double precision.
fn assert_same(found: &Histogram, expected: &Histogram, what: &str) {
    let bounds: BTreeSet<i64> = found.keys().chain(expected.keys()).copied().collect();
    let count = |of: &Histogram, bound: &i64| of.get(bound).copied().unwrap_or(0);
    let different: u64 =
        bounds.iter().map(|bound| count(found, bound).abs_diff(count(expected, bound))).sum();
    assert!(different <= 4, "{what}: {found:?} instead of {expected:?}");
}

/// The queries of the guide.
fn queries() -> Vec<String> {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/physics.md")).unwrap();
    let blocks = page.split("```sql adl\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

fn found(batches: &[RecordBatch]) -> Histogram {
    let mut bins = Histogram::new();
    for batch in batches {
        let column = |place: usize| cast(batch.column(place), &DataType::Int64).unwrap();
        let (bounds, counts) = (column(0), column(1));
        let [bounds, counts] =
            [&bounds, &counts].map(|column| column.as_primitive::<arrow::datatypes::Int64Type>());
        // Events without a value have no bin.
        for row in (0..batch.num_rows()).filter(|row| bounds.is_valid(*row)) {
            assert!(bins.insert(bounds.value(row), counts.value(row)).is_none());
        }
    }
    bins
}

/// A part of each query that runs beside the objects, as `EXPLAIN` shows it.
const PUSHED: [&str; 8] = [
    "floor(",
    "",
    "array_any_match(",
    "array_length(array_filter(",
    "array_any_match(",
    "array_length(",
    "array_any_match(",
    "array_length(",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_queries_of_the_guide_give_the_histograms_of_loops() {
    let store = memory_store();
    let pool = pool(&store, "lake").await;
    let events = events(&mut Noise::new(seed::one()));
    let parts: Vec<RecordBatch> = (0..OBJECTS)
        .map(|part| part * EVENTS / OBJECTS)
        .map(|first| batch(first, &events[first..first + EVENTS / OBJECTS]))
        .collect();
    let table = create(&pool, "events", &Definition::new(&parts[0].schema()).unwrap()).await;
    for part in &parts {
        append(&table, std::slice::from_ref(part)).await;
    }
    let queries = queries();
    let expected = expected(&events);
    assert_eq!(queries.len(), expected.len());
    for (place, (sql, expected)) in queries.iter().zip(&expected).enumerate() {
        assert!(expected.values().sum::<i64>() > 50, "query {}", place + 1);
        for (way, settings) in ways() {
            let (_, batches) = answer(&session(&store, settings), sql).await.unwrap();
            assert_same(&found(&batches), expected, &format!("query {}, {way}", place + 1));
            if place == 5 {
                let greatest = batches.iter().flat_map(|batch| {
                    let btags = cast(batch.column(2), &DataType::Float64).unwrap();
                    btags.as_primitive::<Float64Type>().iter().flatten().collect::<Vec<_>>()
                });
                let of_loops = events.iter().filter_map(trijet).map(|(_, btag)| btag).fold(0.0, f64::max);
                assert_eq!(greatest.fold(0.0, f64::max), of_loops, "{way}");
            }
        }
        let always = Settings { pushdown: Pushdown::Always, ..Settings::default() };
        let (_, plan) = answer(&session(&store, always), &format!("EXPLAIN {sql}")).await.unwrap();
        let plan = arrow::util::pretty::pretty_format_batches(&plan).unwrap().to_string();
        let fragment =
            plan.lines().filter(|line| line.contains("FragmentExec")).collect::<Vec<_>>().join("\n");
        assert!(PUSHED[place].is_empty() || fragment.contains(PUSHED[place]), "query {}: {plan}", place + 1);
    }
}
