//! Progress bars. They appear only on a terminal, and on stderr, so that results can go through a
//! pipe.

use indicatif::{ProgressBar, ProgressState, ProgressStyle, WeakProgressBar};
use std::fmt::Write;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// The bar on the terminal. Lines of other parts of the program appear above it.
static CURRENT: LazyLock<Mutex<WeakProgressBar>> = LazyLock::new(Mutex::default);

/// Hides the bar on the terminal, if there is one, while `print` runs.
pub(crate) fn suspend_current(print: impl FnOnce()) {
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    if let Some(bar) = current { bar.suspend(print) } else { print() }
}

/// A progress bar for a known total, or a spinner for an unknown one. Prints nothing without a
/// terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar over `total_bytes`. If that is 0, the total is unknown, and a spinner counts the
    /// bytes.
    pub fn bytes(label: &str, total_bytes: u64) -> Progress {
        if total_bytes == 0 {
            const TEMPLATE: &str = "{spinner} {prefix}: {binary_bytes} {binary_bytes_per_sec}";
            return Progress::new(ProgressBar::new_spinner(), label, TEMPLATE);
        }
        const TEMPLATE: &str =
            "{prefix} [{wide_bar}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
        Progress::new(ProgressBar::new(total_bytes), label, TEMPLATE)
    }

    /// A spinner that counts objects of an unknown total.
    pub fn objects(label: &str) -> Progress {
        Progress::new(ProgressBar::new_spinner(), label, "{spinner} {prefix}: {pos} objects {rate}")
    }

    /// A spinner that counts rows of an unknown total.
    pub fn rows(label: &str) -> Progress {
        Progress::new(ProgressBar::new_spinner(), label, "{spinner} {prefix}: {pos} rows {rate}")
    }

    /// A spinner that shows only the message.
    pub fn waiting() -> Progress {
        Progress::new(ProgressBar::new_spinner(), "", "{spinner} {msg}")
    }

    /// A bar over `total` steps.
    pub fn steps(label: &str, total: u64) -> Progress {
        Progress::new(ProgressBar::new(total), label, "{prefix} [{wide_bar}] {pos}/{len} {msg} {eta}")
    }

    fn new(bar: ProgressBar, label: &str, template: &str) -> Progress {
        bar.set_prefix(label.to_owned());
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, to: &mut dyn Write| {
                // If the write fails, no terminal is left to show the rate.
                let _ = write!(to, "{:.1}/s", state.per_sec());
            };
            bar.set_style(style.progress_chars("=> ").with_key("rate", rate));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
            *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = bar.downgrade();
        }
        Progress(bar)
    }

    /// Advances by a number of bytes, objects, rows or steps.
    pub fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    /// Sets the current step and the total, both of which may have changed.
    pub fn set_position(&self, step: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(step);
    }

    /// Sets the text that describes the current step.
    pub fn set_message(&self, message: &str) {
        self.0.set_message(message.to_owned());
    }

    /// Prints a line above the bar. Prints nothing without a terminal.
    pub fn print_line(&self, line: String) {
        self.0.println(line);
    }

    /// Hides the bar while `print` runs.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
