use super::{GUEST_METHODS_MAX, GuestCounters};
use benthic_core::{Error, ErrorKind, GuestCost, GuestMethod, MethodCalls, Result};
use std::time::Duration;

fn guest(class: &str, version: &str, method: &str) -> GuestMethod {
    GuestMethod { class: class.to_owned(), version: version.to_owned(), method: method.to_owned() }
}

fn cost(fuel: u64) -> GuestCost {
    GuestCost { fuel, memory_bytes: 10 * fuel }
}

#[test]
fn versions_of_a_guest_are_counted_apart() {
    let counters = GuestCounters::default();
    let failed = |kind| Err::<(), _>(Error::new(kind, "no"));
    let busy = Duration::from_micros(7);
    counters.add(guest("a", "2", "run"), &Ok(()), busy, cost(100));
    counters.add(guest("a", "1", "run"), &Ok(()), busy, cost(100));
    counters.add(guest("a", "1", "run"), &failed(ErrorKind::ClassFailed), busy, cost(50));
    counters.add(guest("a", "1", "run"), &failed(ErrorKind::LimitExceeded), busy, cost(1));
    let classes = counters.read();
    let versions: Vec<_> = classes.iter().map(|class| class.version.as_deref().unwrap()).collect();
    assert_eq!(versions, ["1", "2"]);
    let name = "run".to_owned();
    let expected = MethodCalls {
        name,
        calls: 3,
        failures: 2,
        faults: 1,
        busy_us: 21,
        fuel: 151,
        memory_bytes_max: 1_000,
    };
    assert_eq!(classes[0].methods, [expected]);
}

#[test]
fn the_method_that_was_called_longest_ago_makes_room() {
    let counters = GuestCounters::default();
    let ok: Result<()> = Ok(());
    let add = |number: usize| {
        counters.add(guest("a", "1", &format!("{number:04}")), &ok, Duration::ZERO, cost(1));
    };
    (0..GUEST_METHODS_MAX).for_each(add);
    add(0);
    add(GUEST_METHODS_MAX);
    let methods = counters.read().remove(0).methods;
    assert_eq!(methods.len(), GUEST_METHODS_MAX);
    assert_eq!((&methods[0].name[..], methods[0].calls, &methods[1].name[..]), ("0000", 2, "0002"));
}
