//! Progress bars on stderr: there only when that is a terminal, and never when quiet.

use std::borrow::Cow;
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Whether bars are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bars {
    shown: bool,
}

impl Bars {
    /// Bars, unless `quiet` or stderr is no terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { shown: !quiet && std::io::stderr().is_terminal() }
    }

    /// A bar for one phase. It goes away when it is dropped.
    pub(crate) fn phase(self, name: impl Into<Cow<'static, str>>) -> Bar {
        let bar = if self.shown {
            ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10))
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{msg:>10} {wide_bar} {percent:>3} %") {
            bar.set_style(style);
        }
        bar.set_message(name);
        Bar { bar }
    }
}

/// One phase on its way.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// So much is done, of so much.
    pub(crate) fn show(&self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
    }

    /// The same, counted by the host.
    pub(crate) fn show_steps(&self, done: usize, all: usize) {
        let wide = |count| u64::try_from(count).unwrap_or(u64::MAX);
        self.show(wide(done), wide(all));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
