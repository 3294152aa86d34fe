use super::{CallTimeouts, Cancel};
use benthic_core::SystemClock;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Op(&'static str, Mutex<Sender<&'static str>>);

impl Cancel for Op {
    fn cancel(&self) {
        self.1.lock().unwrap().send(self.0).unwrap();
    }
}

#[test]
fn late_calls_are_cancelled_in_order_and_ended_calls_are_not() {
    let (sender, cancelled) = channel();
    let op = |name| Arc::new(Op(name, Mutex::new(sender.clone())));
    let timeouts = CallTimeouts::start(Duration::from_millis(50), Arc::new(SystemClock)).unwrap();
    let _first = timeouts.watch(op("first"));
    let ended = timeouts.watch(op("ended"));
    let _last = timeouts.watch(op("last"));
    drop(ended);
    // The calls of a store that is dropped are cancelled, too.
    drop(timeouts);
    drop(sender);
    assert_eq!(cancelled.iter().collect::<Vec<_>>(), ["first", "last"]);
}
