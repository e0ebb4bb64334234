//! The smallest memory fraction with which PyTorch 2.11 served the same calls on an H200, found
//! there by bisection to half a per cent.

use pytorch_model::LARGE_SEGMENT_BYTES;

use crate::serve;

const TRACES: [&str; 2] = ["gpt_train", "gnn_train"];
/// The setting, and for each trace the smallest limit in MiB.
const SMALLEST: [(&str, [u64; 2]); 3] = [
    ("default", [13_637, 4_860]),
    ("expandable_segments:True", [12_706, 4_241]),
    ("garbage_collection_threshold:0.8,max_split_size_mb:256", [12_951, 4_404]),
];

#[test]
fn a_run_fits_at_the_smallest_limit_and_not_one_per_cent_below() {
    for (setting, limits) in SMALLEST {
        for (name, mebibytes) in TRACES.into_iter().zip(limits) {
            let limit = mebibytes << 20;
            let (figures, failure) = serve(name, setting, Some(limit));
            assert_eq!(failure, None, "{name} under {setting} with {mebibytes} MiB");
            // PyTorch compares before it rounds up to pages of an expandable segment.
            assert!(figures.reserved_peak_bytes < limit + LARGE_SEGMENT_BYTES);
            let (_, failure) = serve(name, setting, Some(limit - limit / 100));
            assert!(failure.is_some(), "{name} under {setting} with less than {mebibytes} MiB");
        }
    }
}
