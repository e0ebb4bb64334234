//! The loader against driver libraries of every kind that is met in the field.
//!
//! The drivers are stubs: C written by `stub.rs`, compiled at test time, that answer every entry
//! point they have with a number of its own and write down what `cuGetProcAddress` was asked.

#[cfg(test)]
mod stub;

use std::path::Path;

use cuda_sys::{CUresult, LoadError, MissingEntryPoint, Table, load, load_from};
use stub::Stub;

/// The refusal of `stub`, which must be for a required entry point.
fn refusal(stub: &Stub) -> (MissingEntryPoint, String) {
    let error = load_from(stub.path()).expect_err("the stub lacks a required entry point");
    let text = error.to_string();
    assert!(text.contains(&stub.path().display().to_string()), "names no library: {text}");
    let LoadError::MissingRequired { missing, .. } = error else {
        panic!("expected a missing entry point, found {error:?}");
    };
    (missing, text)
}

/// What a stub answers when the entry point `name` is called: the code is the entry's own.
fn own_code(name: &str) -> CUresult {
    CUresult(stub::code_of(name))
}

/// The entry points a driver of `version` can be asked for, as (name, version, flags).
fn askable(version: u32) -> Vec<(String, u32, u64)> {
    Table::ENTRY_POINTS
        .iter()
        .filter(|entry| entry.since <= version)
        .map(|entry| (entry.name.to_owned(), entry.since, 0))
        .collect()
}

#[test]
fn no_library_is_an_error_that_names_the_file_and_the_linkers_reason() {
    let path = Path::new("/nonexistent/libcuda.so.1");
    let error = load_from(path).expect_err("there is no such file");
    let LoadError::NoLibrary { library, reason } = &error else {
        panic!("expected no library, found {error:?}");
    };
    assert_eq!(library, "/nonexistent/libcuda.so.1");
    assert!(reason.contains("No such file"), "{reason}");
    let text = error.to_string();
    assert!(text.starts_with("no CUDA driver: /nonexistent/libcuda.so.1 could not be"), "{text}");
}

#[test]
fn a_file_that_is_no_library_is_an_error_that_says_so() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libnot-a-library.so");
    std::fs::write(&path, "not a library").unwrap();
    let error = load_from(&path).expect_err("a text file is no library");
    assert!(matches!(error, LoadError::NoLibrary { .. }), "{error:?}");
    assert!(error.to_string().contains("libnot-a-library.so"), "{error}");
}

#[test]
fn the_installed_driver_is_there_or_missing_but_never_half_there() {
    match load() {
        Ok(table) => assert!(table.driver_version().is_some()),
        Err(LoadError::NoLibrary { library, .. }) => assert_eq!(library, "libcuda.so.1"),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(load().err(), load().err(), "the answer changed");
}

#[test]
fn a_13_0_driver_gives_every_entry_point_each_asked_once_at_its_own_version() {
    let stub = Stub::new("full-13-0").version(13_000).build();
    let table = load_from(stub.path()).unwrap();
    assert_eq!(table.driver_version(), Some(13_000));
    assert_eq!(stub.asked(), askable(13_000));
    assert_eq!(stub.asked().len(), Table::ENTRY_POINTS.len());

    let get_count = table.device_get_count();
    let mut count = 0;
    // SAFETY: the stub takes any arguments and touches none of them.
    let code = unsafe { get_count(&raw mut count) };
    assert_eq!(code, own_code("cuDeviceGetCount"));
    let get_id = table.stream_get_id().unwrap();
    let mut id = 0;
    // SAFETY: as above.
    let code = unsafe { get_id(std::ptr::null_mut(), &raw mut id) };
    assert_eq!(code, own_code("cuStreamGetId"));
    let record = table.ctx_record_event().unwrap();
    // SAFETY: as above.
    let code = unsafe { record(std::ptr::null_mut(), std::ptr::null_mut()) };
    assert_eq!(code, own_code("cuCtxRecordEvent"));
}

#[test]
fn a_12_2_driver_is_asked_for_nothing_newer_than_itself() {
    let stub = Stub::new("full-12-2").version(12_020).build();
    let table = load_from(stub.path()).unwrap();
    assert_eq!(table.driver_version(), Some(12_020));
    assert_eq!(stub.asked(), askable(12_020));
    assert!(stub.asked().len() < Table::ENTRY_POINTS.len(), "nothing here is newer than 12.2");
    assert!(table.stream_get_id().is_ok(), "12.0 brought it");
    assert!(table.mem_create().is_ok(), "10.2 brought it");
}

#[test]
fn on_a_12_2_driver_a_newer_call_is_an_error_with_both_versions() {
    let stub = Stub::new("newer-12-2").version(12_020).build();
    let table = load_from(stub.path()).unwrap();
    let missing = table.ctx_record_event().unwrap_err();
    assert_eq!(
        missing.to_string(),
        "the driver has no cuCtxRecordEvent, which CUDA 12.5 brought \
         (this driver is for CUDA 12.2)"
    );
    let missing = table.stream_get_capture_info().unwrap_err();
    assert_eq!((missing.name, missing.since), ("cuStreamGetCaptureInfo", 12_030));
    assert_eq!(CUresult::from(missing), CUresult::CUDA_ERROR_NOT_FOUND);
}

#[test]
fn a_missing_optional_entry_point_is_an_error_only_when_it_is_wanted() {
    let stub = Stub::new("no-vmm").version(13_000).lacks(&["cuMemCreate", "cuMemMap"]).build();
    let table = load_from(stub.path()).unwrap();
    let missing = table.mem_create().unwrap_err();
    assert_eq!(
        missing.to_string(),
        "the driver has no cuMemCreate, which CUDA 10.2 brought (this driver is for CUDA 13.0)"
    );
    assert_eq!(table.mem_map().unwrap_err().name, "cuMemMap");
    assert!(table.mem_unmap().is_ok());
}

#[test]
fn a_missing_required_entry_point_is_an_error_that_names_it_and_its_version() {
    let stub = Stub::new("no-host-func").version(13_000).lacks(&["cuLaunchHostFunc"]).build();
    let (missing, text) = refusal(&stub);
    assert_eq!((missing.name, missing.since), ("cuLaunchHostFunc", 10_000));
    assert_eq!(missing.driver, Some(13_000));
    assert!(
        text.ends_with(
            "cannot be used: the driver has no cuLaunchHostFunc, which CUDA 10.0 brought \
             (this driver is for CUDA 13.0)"
        ),
        "{text}"
    );
}

#[test]
fn a_driver_older_than_a_required_entry_point_is_refused_with_both_versions() {
    let stub = Stub::new("full-10-2").version(10_020).by_symbol().build();
    let (missing, text) = refusal(&stub);
    assert_eq!((missing.since, missing.driver), (11_000, Some(10_020)));
    assert!(text.contains("CUDA 11.0 brought (this driver is for CUDA 10.2)"), "{text}");
}

#[test]
fn a_driver_without_a_version_is_refused_and_the_error_says_it_tells_none() {
    let stub = Stub::new("no-version").version(12_020).lacks(&["cuDriverGetVersion"]).build();
    let (missing, text) = refusal(&stub);
    assert_eq!((missing.name, missing.since), ("cuDriverGetVersion", 2_020));
    assert!(text.ends_with("(this driver does not tell its version)"), "{text}");
}

#[test]
fn a_library_that_is_no_driver_at_all_lacks_the_first_required_entry_point() {
    let every: Vec<&str> = Table::ENTRY_POINTS.iter().map(|entry| entry.name).collect();
    let stub = Stub::new("foreign").version(13_000).by_symbol().lacks(&every).build();
    let (missing, _) = refusal(&stub);
    assert_eq!((missing.name, missing.driver), ("cuInit", None));
}

#[test]
fn a_driver_without_get_proc_address_is_read_by_its_symbols() {
    let stub = Stub::new("symbols-11-2").version(11_020).by_symbol().build();
    let table = load_from(stub.path()).unwrap();
    assert_eq!(table.driver_version(), Some(11_020));
    assert!(stub.asked().is_empty());

    let alloc = table.mem_alloc();
    let mut address = 0;
    // SAFETY: the stub takes any arguments and touches none of them.
    let code = unsafe { alloc(&raw mut address, 1) };
    assert_eq!(code, own_code("cuMemAlloc"), "bound to another symbol than cuMemAlloc_v2");
    assert!(table.mem_alloc_async().is_ok(), "11.2 brought it");
    let missing = table.stream_get_id().unwrap_err();
    assert_eq!(
        missing.to_string(),
        "the driver has no cuStreamGetId, which CUDA 12.0 brought (this driver is for CUDA 11.2)"
    );
}

#[test]
fn without_get_proc_address_a_missing_required_symbol_is_named_by_its_plain_name() {
    let stub = Stub::new("symbols-no-free").version(11_020).by_symbol().lacks(&["cuMemFree"]);
    let (missing, text) = refusal(&stub.build());
    assert_eq!((missing.name, missing.since), ("cuMemFree", 3_020));
    assert!(!text.contains("_v2"), "{text}");
}

#[test]
fn the_library_stays_open_for_as_long_as_its_table_lives() {
    let table = {
        let stub = Stub::new("kept-open").version(13_000).build();
        load_from(stub.path()).unwrap()
    };
    let init = table.init();
    // SAFETY: the stub takes any arguments and touches none of them.
    let code = unsafe { init(0) };
    assert_eq!(code, own_code("cuInit"));
}

/// Was: asked for as `cuGraphInstantiate`, a driver gives an older function of that name, which
/// takes five arguments; called with three it read two registers of anybody's, and crashed on an
/// H200. `cargo xtask bindgen` compares every name and version with the header's own list now.
#[test]
fn the_graph_instantiation_is_asked_for_by_the_name_of_its_signature() {
    let names: Vec<&str> = Table::ENTRY_POINTS.iter().map(|entry| entry.name).collect();
    assert!(names.contains(&"cuGraphInstantiateWithFlags"));
    assert!(!names.contains(&"cuGraphInstantiate"));
}
