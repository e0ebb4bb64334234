//! The bytes behind device memory: only pages that were written take room on the host.
//!
//! A page is a kibibyte; one that holds a single repeated word takes none of its own. Bytes that
//! were never written read as zero.

const PAGE: usize = 1024;
const PAGES_PER_CHUNK: usize = 1024;
const CHUNK: usize = PAGE * PAGES_PER_CHUNK;

#[derive(Debug, Clone, Default)]
enum Page {
    #[default]
    Zero,
    /// One word, over and over.
    Repeated(u32),
    /// As many as a page has.
    Bytes(Box<[u8]>),
}

type Chunk = Vec<Page>;

/// A run of device bytes.
#[derive(Debug, Default)]
pub(crate) struct SparseBytes {
    chunks: Vec<Option<Chunk>>,
    length: u64,
    resident: u64,
}

impl SparseBytes {
    pub(crate) fn new(length: u64) -> Self {
        Self { chunks: Vec::new(), length, resident: 0 }
    }

    /// How much host memory the contents take.
    pub(crate) fn resident(&self) -> u64 {
        self.resident
    }

    /// Copies out; the caller has checked the range.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        assert!(offset + size(into.len()) <= self.length, "reads stay inside the allocation");
        let mut offset = host(offset);
        let mut rest = into;
        while !rest.is_empty() {
            let inside = offset % PAGE;
            let count = (PAGE - inside).min(rest.len());
            let (part, tail) = rest.split_at_mut(count);
            match self.page(offset) {
                None | Some(Page::Zero) => part.fill(0),
                Some(Page::Repeated(word)) => repeat(*word, inside, part),
                Some(Page::Bytes(bytes)) => {
                    if let Some(source) = bytes.get(inside..inside + count) {
                        part.copy_from_slice(source);
                    }
                }
            }
            offset += count;
            rest = tail;
        }
    }

    /// Copies in; the caller has checked the range.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) {
        assert!(offset + size(from.len()) <= self.length, "writes stay inside the allocation");
        let mut offset = host(offset);
        let mut rest = from;
        while !rest.is_empty() {
            let inside = offset % PAGE;
            let count = (PAGE - inside).min(rest.len());
            let (part, tail) = rest.split_at(count);
            if let Some(target) = self.bytes_mut(offset).get_mut(inside..inside + count) {
                target.copy_from_slice(part);
            }
            offset += count;
            rest = tail;
        }
    }

    /// Repeats `word` over `length` bytes; `offset` is a multiple of four unless all four bytes
    /// of the word are equal.
    pub(crate) fn fill(&mut self, offset: u64, length: u64, word: u32) {
        assert!(offset + length <= self.length, "fills stay inside the allocation");
        let mut offset = host(offset);
        let end = offset + host(length);
        while offset < end {
            let inside = offset % PAGE;
            let count = (PAGE - inside).min(end - offset);
            if count == PAGE {
                let new = if word == 0 { Page::Zero } else { Page::Repeated(word) };
                let old = std::mem::replace(self.page_mut(offset), new);
                if matches!(old, Page::Bytes(_)) {
                    self.resident -= size(PAGE);
                }
            } else if let Some(target) = self.bytes_mut(offset).get_mut(inside..inside + count) {
                repeat(word, inside, target);
            }
            offset += count;
        }
    }

    fn page(&self, offset: usize) -> Option<&Page> {
        self.chunks.get(offset / CHUNK)?.as_ref()?.get(offset % CHUNK / PAGE)
    }

    fn page_mut(&mut self, offset: usize) -> &mut Page {
        let index = offset / CHUNK;
        if self.chunks.len() <= index {
            self.chunks.resize_with(index + 1, || None);
        }
        let chunk = self.chunks.get_mut(index).expect("the list was just made long enough");
        if chunk.is_none() {
            self.resident += size(PAGES_PER_CHUNK * size_of::<Page>());
        }
        chunk
            .get_or_insert_with(|| vec![Page::Zero; PAGES_PER_CHUNK])
            .get_mut(offset % CHUNK / PAGE)
            .expect("a chunk holds all its pages")
    }

    fn bytes_mut(&mut self, offset: usize) -> &mut [u8] {
        if !matches!(self.page_mut(offset), Page::Bytes(_)) {
            self.resident += size(PAGE);
            let page = self.page_mut(offset);
            let mut bytes = vec![0; PAGE].into_boxed_slice();
            if let Page::Repeated(word) = *page {
                repeat(word, 0, &mut bytes);
            }
            *page = Page::Bytes(bytes);
        }
        match self.page_mut(offset) {
            Page::Bytes(bytes) => bytes,
            Page::Zero | Page::Repeated(_) => unreachable!("the page was just given its bytes"),
        }
    }
}

fn repeat(word: u32, phase: usize, into: &mut [u8]) {
    let pattern = word.to_le_bytes();
    for (byte, value) in into.iter_mut().zip(pattern.iter().cycle().skip(phase % 4)) {
        *byte = *value;
    }
}

fn host(bytes: u64) -> usize {
    usize::try_from(bytes).expect("the host is a 64-bit machine")
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("the host is a 64-bit machine")
}
