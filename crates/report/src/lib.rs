//! Draws a recorded trace: one interactive page, and pictures of memory over time.
//!
//! Start with [`Report::of`] or [`Report::of_recording`]. [`Report::html`] is one file that needs
//! no network: the recorded lives of all blocks, packed, and a program in JavaScript that draws
//! them; [`Report::svg`] and `Report::png` are its main picture for issues and papers.
//!
//! `history` turns a snapshot's trace into lives, `recorded` a stream trace, `ranges` into what was
//! held from the driver; `holes` says how broken up the free part is, `gather` brings these
//! together with owners, stacks and annotations, `pack` writes all that for the page, `page` puts
//! the page together; `levels`, `picture`, `svg` and `png` draw without a browser. The page's own
//! files are in `assets`.
//!
//! It knows nothing of command lines, devices or our own allocator, and opens no file. Its
//! invariants:
//! - text of a snapshot never becomes markup or program, neither in the page nor in a picture;
//! - size and time are proportional to the trace, and no value in it makes arithmetic fail;
//! - no peak is lost to drawing: what stands for several moments is the highest of them.
#![forbid(unsafe_code)]

mod gather;
mod history;
mod holes;
mod levels;
mod pack;
mod page;
mod picture;
#[cfg(feature = "png")]
mod png;
mod ranges;
mod recorded;
mod svg;

use trace::Pattern;
use trace::pytorch::{ReadError, Snapshot};
use trace::stream_trace::Recording;

#[cfg(feature = "png")]
pub use png::PngError;

/// What a report is made of, besides the snapshot.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// What stands on top, such as the name of the file.
    pub title: &'a str,
    /// The device; by default the first that has a trace, or else a segment.
    pub device: Option<usize>,
    /// Says which frames are owners; by default those of the program itself.
    pub owner: Option<Pattern<'a>>,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { title, device, owner } = self;
        let mut told = formatter.debug_struct("Options");
        told.field("title", title).field("device", device).field("has_owner", &owner.is_some());
        told.finish()
    }
}

/// A device's trace, ready to be drawn.
///
/// ```
/// use report::{Options, Report};
/// use trace::pytorch::{ReadOptions, read_file};
///
/// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
/// # let file = std::path::Path::new(folder).join("graphs.pickle.zst");
/// let snapshot = read_file(&file, &ReadOptions::default(), None)?;
/// let report = Report::of(&snapshot, &Options { title: "graphs", ..Options::default() })?;
/// assert!(report.html().starts_with("<!doctype html>"));
/// assert!(report.svg().starts_with("<svg "));
/// # Ok::<(), trace::pytorch::ReadError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Report {
    gathered: gather::Gathered,
}

/// What a report shows, in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Index of the device.
    pub device: usize,
    /// Events; a free whose completion follows directly is one.
    pub event_count: usize,
    /// Blocks, those from before the trace included.
    pub block_count: usize,
    /// Owners of blocks.
    pub owner_count: usize,
    /// The most bytes of blocks that were allocated or pending.
    pub peak_active_bytes: u64,
    /// The most bytes held from the driver, as far as the file tells.
    pub peak_reserved_bytes: u64,
    /// Requests that found no room.
    pub out_of_memory_count: usize,
}

impl Figures {
    /// The most bytes held from the driver; none where blocks were in use and the file tells of no
    /// segment that held them, as a log of RMM.
    #[must_use]
    pub fn reserved_peak_bytes(&self) -> Option<u64> {
        reserved_peak(self.peak_active_bytes, self.peak_reserved_bytes)
    }
}

fn reserved_peak(active_bytes: u64, reserved_bytes: u64) -> Option<u64> {
    (0 < reserved_bytes || active_bytes == 0).then_some(reserved_bytes)
}

impl Report {
    /// Gathers what is to be drawn. Takes some hundred bytes of memory for each block.
    ///
    /// # Errors
    /// [`ReadError::NoSuchDevice`] and [`ReadError::NoHistoryOnDevice`] if the device asked for has
    /// neither a trace nor a segment. A device with segments alone gives a report of one moment.
    pub fn of(snapshot: &Snapshot, options: &Options<'_>) -> Result<Self, ReadError> {
        Ok(Self { gathered: gather::gather(snapshot, options)? })
    }

    /// Gathers what is to be drawn of a stream trace, which knows for which streams a freed block
    /// waits. Its places are both stacks and owners, and it is of one device: of `options` only the
    /// title is used.
    #[must_use]
    pub fn of_recording(recording: &Recording, options: &Options<'_>) -> Self {
        Self { gathered: gather::gather_recording(recording, options) }
    }

    /// What is shown, in figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.gathered.figures()
    }

    /// The page: one file, to be opened from a disk.
    #[must_use]
    pub fn html(&self) -> String {
        page::page(&self.gathered)
    }

    /// Memory over time as a picture of lines and areas.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::svg(&picture::picture(&self.gathered))
    }

    /// The same picture in pixels.
    ///
    /// # Errors
    /// [`PngError`] if the picture cannot be encoded.
    #[cfg(feature = "png")]
    pub fn png(&self) -> Result<Vec<u8>, PngError> {
        png::png(&picture::picture(&self.gathered))
    }
}
