//! The neighbor on the simulated driver, which cudarc opens as it would open the real one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where cargo puts the examples of this profile; it builds them with the tests.
fn examples() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows where it is");
    own.parent().and_then(Path::parent).expect("it lies in `deps`").join("examples")
}

/// A folder with the simulated driver under the names by which programs look for the real one.
fn driver_folder(example: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{example}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let library = examples().join("libsimulated_cuda.so");
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::os::unix::fs::symlink(&library, folder.join(name)).expect("a link");
    }
    folder
}

fn run(example: &str) -> Output {
    let folder = driver_folder(example);
    let program = examples().join(example);
    assert!(
        program.exists(),
        "not built: run `cargo test -p cudarc-adapter`, which builds examples"
    );
    let output = Command::new(program).env("LD_LIBRARY_PATH", &folder).output().expect("it starts");
    std::fs::remove_dir_all(folder).expect("the folder goes");
    output
}

/// Was, with cudarc's slices: the second reader's record replaces the first one's in the only event
/// that guards the drop, so the buffer is given away under the first reader.
#[test]
fn no_reader_is_lost_where_cudarcs_own_slices_lose_one() {
    let output = run("lost_reader");
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}{errors}");
    let lost_none = "Wellspring's buffers: the slow reader lost its bytes in 0 of 20 rounds";
    assert!(text.contains(lost_none), "{text}");
    assert!(text.contains("a launch of cudarc's: right"), "{text}");
    // The control: the same program finds the fault where there is one.
    let memory_gone = "cudarc's slices: the device failed in round 1: DriverError(\
                       CUDA_ERROR_ILLEGAL_ADDRESS";
    assert!(text.contains(memory_gone), "{text}");
}

/// Each step of the example checks itself.
#[test]
fn reads_and_writes_of_cudarc_are_ordered_and_their_uses_counted() {
    let output = run("neighbor");
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}{errors}");
    assert_eq!(text.lines().filter(|line| line.ends_with(": right")).count(), 7, "{text}");
}
