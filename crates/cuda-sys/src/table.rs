//! The function table: every entry point of `symbols.txt`, as a pointer found at run time.

use std::ffi;
use std::fmt;

use crate::driver::*;
use crate::error::MissingEntryPoint;

/// What a table needs to know to look for one entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EntryPoint {
    /// The name `cuGetProcAddress` is asked for.
    pub name: &'static str,
    /// The CUDA version that brought exactly the signature bound here: `12030` is 12.3.
    pub since: u32,
    /// The symbol that a driver without `cuGetProcAddress` exports.
    pub symbol: &'static str,
    /// Whether no table can be made without it.
    pub required: bool,
}

/// Defines [`Table`] from the generated rows.
macro_rules! entry_points {
    ($($need:ident $field:ident $since:literal $name:literal $symbol:literal
        fn($($type:ty),* $(,)?) -> $result:ty;)*) => {
        /// The driver's entry points.
        ///
        /// Each method gives a function pointer with the driver's own signature; a call through
        /// it is `unsafe`, with the driver's rules. Thread-safe: the table never changes.
        pub struct Table {
            $($field: Option<unsafe extern "C" fn($($type),*) -> $result>,)*
            driver_version: Option<u32>,
            /// Keeps the pointers valid; `None` when they came from a closure.
            pub(crate) library: Option<libloading::Library>,
        }

        impl Table {
            /// All entry points, in the order of `symbols.txt`.
            pub const ENTRY_POINTS: &'static [EntryPoint] = &[$(EntryPoint {
                name: $name,
                since: $since,
                symbol: $symbol,
                required: entry_points!(@required $need),
            },)*];

            /// Fills a table by asking `find` for every entry point; null means "not there".
            /// The second argument of `find` is the flags word for `cuGetProcAddress`: zero,
            /// the legacy default stream.
            ///
            /// # Safety
            /// - Each pointer `find` gives is null or a function with the driver's signature
            ///   for that entry point, and stays one for as long as the table lives.
            ///
            /// # Errors
            /// The first required entry point that `find` does not give.
            pub unsafe fn fill(
                driver_version: Option<u32>,
                mut find: impl FnMut(&EntryPoint, u64) -> *const ffi::c_void,
            ) -> Result<Self, MissingEntryPoint> {
                let mut look = |entry: EntryPoint| {
                    let pointer = find(&entry, 0);
                    if pointer.is_null() && entry.required {
                        return Err(MissingEntryPoint::new(&entry, driver_version));
                    }
                    Ok(pointer)
                };
                Ok(Self {
                    $($field: {
                        let pointer = look(EntryPoint {
                            name: $name,
                            since: $since,
                            symbol: $symbol,
                            required: entry_points!(@required $need),
                        })?;
                        // SAFETY: null is `None`; anything else is a function of this
                        // signature by the contract of `fill`.
                        unsafe {
                            std::mem::transmute::<
                                *const ffi::c_void,
                                Option<unsafe extern "C" fn($($type),*) -> $result>,
                            >(pointer)
                        }
                    },)*
                    driver_version,
                    library: None,
                })
            }

            $(entry_points! { @method $need $field $since $name $symbol
                fn($($type),*) -> $result })*
        }
    };
    (@required required) => { true };
    (@required optional) => { false };
    (@method required $field:ident $since:literal $name:literal $symbol:literal
        fn($($type:ty),*) -> $result:ty) => {
        #[doc = concat!("`", $name, "`: always there.")]
        #[inline]
        #[must_use]
        pub fn $field(&self) -> unsafe extern "C" fn($($type),*) -> $result {
            self.$field.expect("`fill` refuses a table without its required entry points")
        }
    };
    (@method optional $field:ident $since:literal $name:literal $symbol:literal
        fn($($type:ty),*) -> $result:ty) => {
        #[doc = concat!("`", $name, "`: drivers may lack it.")]
        ///
        /// # Errors
        /// The driver in use does not have it; the error names the call and its version.
        #[inline]
        pub fn $field(
            &self,
        ) -> Result<unsafe extern "C" fn($($type),*) -> $result, MissingEntryPoint> {
            self.$field.ok_or(MissingEntryPoint {
                name: $name,
                since: $since,
                driver: self.driver_version,
            })
        }
    };
}

include!("../bindings/table.rs");

impl Table {
    /// The CUDA version the driver is for, as `1000 * major + 10 * minor`, if it told one.
    #[must_use]
    pub fn driver_version(&self) -> Option<u32> {
        self.driver_version
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("driver_version", &self.driver_version)
            .field("library", &self.library)
            .finish_non_exhaustive()
    }
}
