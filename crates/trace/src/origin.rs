//! What a snapshot was made of, and how files say it.

/// Whose allocator served what a snapshot tells of, and what kind of file told of it first.
///
/// Only a file that PyTorch wrote has the settings and segments of PyTorch's allocator. A file that
/// this crate makes of another kind is marked, so that it is still known when it is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// A memory snapshot that PyTorch wrote, or that was written of one once more.
    #[default]
    Pytorch,
    /// The entries of such a snapshot, out of CSV or a Chrome trace: without its settings, and
    /// without the segments of its end.
    PytorchEntries,
    /// A log of RMM: without uses by streams and without segments.
    RmmLog,
    /// A stream trace, from whose uses completions were worked out.
    StreamTrace,
}

impl Origin {
    /// How a file is marked that was made of this; none where it is PyTorch's own.
    #[must_use]
    pub const fn mark(self) -> Option<&'static str> {
        match self {
            Self::Pytorch => None,
            Self::PytorchEntries => Some("entries of a PyTorch snapshot"),
            Self::RmmLog => Some("RMM log"),
            Self::StreamTrace => Some("stream trace"),
        }
    }

    /// How a file is marked that has entries alone: that they are a snapshot's own goes without
    /// saying.
    pub(crate) fn mark_of_entries(self) -> Option<&'static str> {
        self.mark().filter(|_| self != Self::PytorchEntries)
    }

    /// What a file with this mark was made of; none if nobody here writes it.
    #[must_use]
    pub fn of_mark(mark: &str) -> Option<Self> {
        let marked = [Self::PytorchEntries, Self::RmmLog, Self::StreamTrace];
        marked.into_iter().find(|it| it.mark() == Some(mark))
    }
}

/// What a mark must be, for who refuses another.
pub(crate) const EXPECTED: &str = "`entries of a PyTorch snapshot`, `RMM log` or `stream trace`";
