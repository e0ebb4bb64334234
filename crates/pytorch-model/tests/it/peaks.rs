//! What PyTorch 2.11 reserved for the same calls under other settings, measured on an H200 by
//! replaying the trace's calls through its own allocator.

use crate::serve;

/// The setting, the peak of reserved bytes, of allocated bytes, and the segments.
type Measured = (&'static str, u64, u64, u64);

const GPT_TRAIN: [Measured; 9] = [
    ("default", 21_619_539_968, 13_194_358_784, 186),
    ("expandable_segments:True", 14_149_484_544, 13_168_382_976, 0),
    ("max_split_size_mb:128", 58_193_870_848, 13_192_590_336, 342),
    ("max_split_size_mb:256", 57_520_685_056, 13_193_464_832, 329),
    ("max_split_size_mb:64", 61_192_798_208, 13_251_015_680, 385),
    ("roundup_power2_divisions:8", 21_583_888_384, 13_559_434_240, 188),
    ("roundup_power2_divisions:4", 18_951_962_624, 13_725_146_112, 194),
    ("roundup_power2_divisions:[64:8,256:4,>:2]", 14_726_201_344, 13_520_086_016, 183),
    ("max_split_size_mb:512,roundup_power2_divisions:16", 46_279_950_336, 13_526_875_136, 253),
];

const GNN_TRAIN: [Measured; 9] = [
    ("default", 11_202_985_984, 4_381_505_536, 37),
    ("expandable_segments:True", 4_884_267_008, 4_378_587_136, 0),
    ("max_split_size_mb:128", 57_088_671_744, 4_381_505_536, 174),
    ("max_split_size_mb:256", 51_910_803_456, 4_381_505_536, 141),
    ("max_split_size_mb:64", 59_095_646_208, 4_381_505_536, 204),
    ("roundup_power2_divisions:8", 11_945_377_792, 4_465_158_144, 39),
    ("roundup_power2_divisions:4", 11_945_377_792, 4_480_886_784, 39),
    ("roundup_power2_divisions:[64:8,256:4,>:2]", 8_589_934_592, 4_465_158_144, 34),
    ("max_split_size_mb:512,roundup_power2_divisions:16", 29_962_010_624, 4_457_818_112, 68),
];

fn check(name: &str, measured: &[Measured]) {
    for (setting, reserved, allocated, segments) in measured {
        let (figures, failure) = serve(name, setting, None);
        assert_eq!(failure, None, "{name} under {setting}");
        let found =
            (figures.reserved_peak_bytes, figures.allocated_peak_bytes, figures.segment_peak_count);
        assert_eq!(found, (*reserved, *allocated, *segments), "{name} under {setting}");
    }
}

#[test]
fn gpt_train_reserves_what_pytorch_did_under_nine_settings() {
    check("gpt_train", &GPT_TRAIN);
}

#[test]
fn gnn_train_reserves_what_pytorch_did_under_nine_settings() {
    check("gnn_train", &GNN_TRAIN);
}
