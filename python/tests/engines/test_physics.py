"""Events of particle physics: from a ROOT file with nested records into a table, and back."""

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
