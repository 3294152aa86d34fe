"""Events of particle physics: from a ROOT file with nested records into a table, and back; and the queries of the guide."""

import collections
import re
from pathlib import Path

import awkward
import numpy
import pytest
import seeds
import uproot
from benthic.engines.parts import scan_of
from coffea.nanoevents.methods import vector

EVENTS = 40_000


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Events with any number of muons and jets, as uproot reads them from a file."""
    random = numpy.random.default_rng(seeds.one())
    muons, jets = random.integers(0, 4, EVENTS), random.integers(0, 6, EVENTS)

    def real(counts, low, high):
        return awkward.unflatten(random.uniform(low, high, counts.sum()).astype("float32"), counts)

    charge = awkward.unflatten(random.choice(numpy.array([-1, 1], "int32"), muons.sum()), muons)
    path = tmp_path_factory.mktemp("root") / "events.root"
    with uproot.recreate(path) as file:
        file["Events"] = {
            "run": numpy.full(EVENTS, 1, "uint32"),
            "event": numpy.arange(EVENTS, dtype="uint64"),
            "MET_pt": random.exponential(30, EVENTS).astype("float32"),
            "Muon": awkward.zip(
                {
                    "pt": real(muons, 3, 100),
                    "eta": real(muons, -2.4, 2.4),
                    "phi": real(muons, -3.1, 3.1),
                    "mass": real(muons, 0.1, 0.11),
                    "charge": charge,
                }
            ),
            "Jet": awkward.zip({"pt": real(jets, 15, 300), "eta": real(jets, -4, 4)}),
        }
    return uproot.open(path)["Events"].arrays()


def test_nested_events_survive_a_table(durable, events):
    rows = awkward.to_arrow_table(events, extensionarray=False)
    table = durable.table(rows, sort_by="event", object_size="1MiB")
    assert table.snapshot().objects >= 2
    # A scan has no order.
    found = sorted_by_event(awkward.from_arrow(table.scan().to_arrow()))
    assert awkward.array_equal(found, events, dtype_exact=True)
    # Each task reads the events of its objects.
    scan = scan_of(table, ["event", "Muon"], '"MET_pt" > 60', None, "auto")
    parts = [awkward.from_arrow(scan.read(part.objects).to_arrow()) for part in scan.parts(0)]
    chosen = events[events.MET_pt > 60][["event", "Muon"]]
    assert len(parts) >= 2 and 0 < len(chosen) < EVENTS
    assert awkward.to_list(sorted_by_event(awkward.concatenate(parts))) == awkward.to_list(chosen)


def test_coffea_computes_with_the_events_of_a_table(durable, events):
    table = durable.table(awkward.to_arrow_table(events, extensionarray=False), sort_by="event", object_size="1MiB")
    found = awkward.from_arrow(table.scan(["event", "Muon"], 'array_length("Muon") >= 2').to_arrow())
    muons = awkward.values_astype(sorted_by_event(found).Muon, "float64")
    muons = awkward.with_name(muons, "PtEtaPhiMLorentzVector", behavior=vector.behavior)
    one, other = awkward.unzip(awkward.combinations(muons, 2))
    masses = (one + other).mass[one.charge != other.charge]
    assert 1_000 < len(muons) == awkward.sum(awkward.num(events.Muon) >= 2)
    assert numpy.allclose(awkward.flatten(masses), awkward.flatten(pair_masses(events.Muon)), rtol=1e-6, atol=1e-6)


def nano_events(random, count):
    """Events with the columns that the queries of the guide use."""

    def particles(most, high, **of):
        counts = random.integers(0, most + 1, count)
        ranges = {"pt": (2, high), "eta": (-2.5, 2.5), "phi": (-numpy.pi, numpy.pi), **of}
        values = {name: random.uniform(*bounds, counts.sum()).astype("float32") for name, bounds in ranges.items()}
        if not of:
            values["charge"] = random.choice(numpy.array([-1, 1], "int32"), counts.sum())
        return awkward.zip({name: awkward.unflatten(of_all, counts) for name, of_all in values.items()})

    rows = {
        "event": numpy.arange(count),
        "MET_pt": random.uniform(0, 150, count).astype("float32"),
        "MET_phi": random.uniform(-numpy.pi, numpy.pi, count).astype("float32"),
        "Jet": particles(6, 120, mass=(1, 20), btag=(0, 1)),
        "Muon": particles(3, 90),
        "Electron": particles(3, 90),
    }
    return awkward.zip(rows, depth_limit=1)


def masses_squared(one, other):
    return 2 * one.pt * other.pt * (numpy.cosh(one.eta - other.eta) - numpy.cos(one.phi - other.phi))


def adl_answers(events):
    """The values and the widths of the bins of the eight histograms."""
    met, jets, muons, electrons = events.MET_pt, events.Jet, events.Muon, events.Electron
    one, other = awkward.unzip(awkward.combinations(muons, 2))
    squared = masses_squared(one, other)
    is_z = awkward.any((one.charge != other.charge) & (squared >= 60**2) & (squared <= 120**2), axis=1)

    momenta = {
        "px": jets.pt * numpy.cos(jets.phi),
        "py": jets.pt * numpy.sin(jets.phi),
        "pz": jets.pt * numpy.sinh(jets.eta),
        "e": numpy.sqrt((jets.pt * numpy.cosh(jets.eta)) ** 2 + jets.mass**2),
    }
    three = awkward.unzip(awkward.combinations(awkward.zip(momenta), 3))
    px, py, pz, e = (sum(jet[name] for jet in three) for name in momenta)
    mass = numpy.sqrt(numpy.maximum(e**2 - px**2 - py**2 - pz**2, 0))
    nearest = awkward.argmin(abs(mass - 172.5), axis=1, keepdims=True)
    trijets = awkward.drop_none(awkward.flatten(numpy.hypot(px, py)[nearest]))

    kinds = [kind[["pt", "eta", "phi", "charge"]] for kind in (muons, electrons)]
    kinds = [awkward.with_field(kind, flavor, "flavor") for kind, flavor in zip(kinds, (13, 11))]
    leptons = awkward.concatenate(kinds, axis=1)
    jet, lepton = awkward.unzip(awkward.cartesian([jets, leptons], axis=1, nested=True))
    distance = (jet.eta - lepton.eta) ** 2 + numpy.arccos(numpy.cos(jet.phi - lepton.phi)) ** 2
    isolated = jets[(jets.pt > 30) & ~awkward.any((lepton.pt > 10) & (distance < 0.16), axis=2)]
    sums = awkward.sum(isolated.pt, axis=1)[awkward.num(isolated) > 0]

    places = awkward.unzip(awkward.argcombinations(leptons, 2))
    one, other = (leptons[place] for place in places)
    is_pair = (one.flavor == other.flavor) & (one.charge != other.charge)
    distance = abs(numpy.sqrt(masses_squared(one, other)) - 91.2)[is_pair]
    nearest = awkward.argmin(distance, axis=1, keepdims=True)
    one, other = (awkward.firsts(place[is_pair][nearest]) for place in places)
    chosen = (awkward.num(leptons) >= 3) & (awkward.num(distance) > 0)
    place = awkward.local_index(leptons, axis=1)
    others = leptons[(place != one) & (place != other)][chosen]
    lepton = awkward.firsts(others[awkward.argmax(others.pt, axis=1, keepdims=True)])
    transverse = numpy.sqrt(2 * lepton.pt * met[chosen] * (1 - numpy.cos(lepton.phi - events.MET_phi[chosen])))

    return [
        (met, 5),
        (awkward.flatten(jets.pt), 10),
        (awkward.flatten(jets.pt[abs(jets.eta) < 1]), 10),
        (met[awkward.sum(jets.pt > 40, axis=1) >= 2], 5),
        (met[is_z], 5),
        (trijets, 20),
        (sums, 20),
        (transverse, 10),
    ]


def test_the_queries_of_the_guide_agree_with_awkward(durable):
    events = nano_events(numpy.random.default_rng(seeds.one()), 4_000)
    table = durable.table(awkward.to_arrow_table(events, extensionarray=False), object_size="1MiB")
    pool, name = table.name.split("/")
    page = Path(__file__).parents[3] / "docs/guide/physics.md"
    queries = re.findall(r"```sql adl\n(.*?)```", page.read_text(), re.DOTALL)
    for sql, (values, width) in zip(queries, adl_answers(awkward.values_astype(events, "float64")), strict=True):
        rows = durable.store.sql(sql.replace("lake.events", f'"{pool}".{name}'), pushdown="always").to_arrow()
        bins, counts = (column.to_pylist() for column in rows.columns[:2])
        # Events without a value have no bin.
        found = collections.Counter({int(bin): count for bin, count in zip(bins, counts) if bin is not None})
        expected = collections.Counter((numpy.floor(awkward.to_numpy(values) / width) * width).astype(int).tolist())
        # Values at the bounds of bins: the events have single precision.
        assert expected.total() > 100 and ((found - expected) | (expected - found)).total() <= 4, sql


def pair_masses(muons):
    """The invariant masses of pairs of opposite charge, by the formula."""
    muons = awkward.values_astype(muons, "float64")
    muons = awkward.zip(
        {
            "px": muons.pt * numpy.cos(muons.phi),
            "py": muons.pt * numpy.sin(muons.phi),
            "pz": muons.pt * numpy.sinh(muons.eta),
            "e": numpy.sqrt((muons.pt * numpy.cosh(muons.eta)) ** 2 + muons.mass**2),
            "charge": muons.charge,
        }
    )
    one, other = awkward.unzip(awkward.combinations(muons, 2))
    squared = (one.e + other.e) ** 2 - (one.px + other.px) ** 2 - (one.py + other.py) ** 2 - (one.pz + other.pz) ** 2
    return numpy.sqrt(squared[one.charge != other.charge])


def sorted_by_event(events):
    return events[awkward.argsort(events.event)]
