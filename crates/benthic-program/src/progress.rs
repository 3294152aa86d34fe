//! Progress bars: on a terminal only, and on stderr, so that results can go through a pipe.

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::time::Duration;

/// A bar for a known number of objects and bytes, a spinner for an unknown one; nothing off a terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar over `total_bytes`; a count of bytes if that is 0, because the total is not known.
    pub fn bytes(what: &str, total_bytes: u64) -> Progress {
        if total_bytes == 0 {
            const TEMPLATE: &str = "{spinner} {prefix}: {binary_bytes} {binary_bytes_per_sec}";
            return Progress::new(ProgressBar::new_spinner(), what, TEMPLATE);
        }
        const TEMPLATE: &str =
            "{prefix} [{wide_bar}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
        Progress::new(ProgressBar::new(total_bytes), what, TEMPLATE)
    }

    /// A count of objects whose total is not known.
    pub fn objects(what: &str) -> Progress {
        Progress::new(ProgressBar::new_spinner(), what, "{spinner} {prefix}: {pos} objects {rate}")
    }

    /// A count of rows whose total is not known.
    pub fn rows(what: &str) -> Progress {
        Progress::new(ProgressBar::new_spinner(), what, "{spinner} {prefix}: {pos} rows {rate}")
    }

    /// A bar over `total` steps.
    pub fn steps(what: &str, total: u64) -> Progress {
        Progress::new(ProgressBar::new(total), what, "{prefix} [{wide_bar}] {pos}/{len} {msg} {eta}")
    }

    fn new(bar: ProgressBar, what: &str, template: &str) -> Progress {
        bar.set_prefix(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, to: &mut dyn Write| {
                // A terminal that is gone needs no rate.
                let _ = write!(to, "{:.1}/s", state.per_sec());
            };
            bar.set_style(style.progress_chars("=> ").with_key("rate", rate));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress(bar)
    }

    /// Moves on by a number of bytes or objects.
    pub fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    /// Moves to a step of so many, both of which may have changed.
    pub fn reach(&self, step: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(step);
    }

    /// Says what the step is.
    pub fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// Prints a line above the bar; nothing off a terminal.
    pub fn line(&self, line: String) {
        self.0.println(line);
    }

    /// Takes the bar away while `print` prints.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
