//! Modules of PTX, their functions, and launches.

use std::ffi::{CString, c_void};
use std::ptr;

use cuda_sys::{CUfunction, CUmodule, CUresult};

use super::{DriverContext, DriverStream, Handle};
use crate::error::Error;
use crate::sync::Arc;

/// How many threads run, in what shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

/// A loaded module.
#[derive(Debug)]
pub(crate) struct DriverModule {
    context: Arc<DriverContext>,
    raw: Handle<CUmodule>,
}

/// A kernel of a module, which it keeps loaded.
#[derive(Debug)]
pub(crate) struct DriverFunction {
    module: Arc<DriverModule>,
    raw: Handle<CUfunction>,
}

/// Text as the driver reads it.
fn text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|error| Error::ZeroByte { at: error.nul_position() })
}

impl DriverModule {
    pub(crate) fn load(context: &Arc<DriverContext>, ptx: &str) -> Result<Self, Error> {
        context.ready()?;
        let ptx = text(ptx)?;
        let _current = context.current()?;
        let _relaxed = context.relaxed()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the text ends with a zero byte, and the result is ours to write.
        let code = unsafe {
            context.table().module_load_data()(&raw mut raw, ptx.as_ptr().cast::<c_void>())
        };
        context.check("cuModuleLoadData", code)?;
        Ok(Self { context: Arc::clone(context), raw: Handle(raw) })
    }

    pub(crate) fn function(self: &Arc<Self>, name: &str) -> Result<DriverFunction, Error> {
        self.context.ready()?;
        let name = text(name)?;
        let _current = self.context.current()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with a zero byte, and the result is ours.
        let code = unsafe {
            self.context.table().module_get_function()(&raw mut raw, self.raw.get(), name.as_ptr())
        };
        self.context.check("cuModuleGetFunction", code)?;
        Ok(DriverFunction { module: Arc::clone(self), raw: Handle(raw) })
    }
}

impl Drop for DriverModule {
    fn drop(&mut self) {
        let raw = self.raw;
        self.context.dispose(move |context| {
            let _current = context.current();
            // SAFETY: this was the only owner; functions of the module would have kept it.
            unsafe { context.table().module_unload()(raw.get()) }
        });
    }
}

impl DriverFunction {
    /// The size of parameter `index`; `None` where the driver cannot tell, `Some(0)` past the
    /// last one.
    pub(crate) fn parameter_bytes(&self, index: usize) -> Result<Option<usize>, Error> {
        let context = &self.module.context;
        context.ready()?;
        let Ok(call) = context.table().func_get_param_info() else { return Ok(None) };
        let _current = context.current()?;
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the function is live, and both results are ours to write.
        let code = unsafe { call(self.raw.get(), index, &raw mut offset, &raw mut bytes) };
        match code {
            CUresult::CUDA_ERROR_INVALID_VALUE => Ok(Some(0)),
            CUresult::CUDA_ERROR_NOT_SUPPORTED => Ok(None),
            code => context.check("cuFuncGetParamInfo", code).map(|()| Some(bytes)),
        }
    }

    /// Launches, with plain stream order and no other attribute (O11).
    ///
    /// Whoever declared the kernel has promised that it takes parameters of these sizes and
    /// touches nothing but what they name.
    pub(crate) fn launch(
        &self,
        stream: &DriverStream,
        shape: Shape,
        values: &mut [ParameterValue],
    ) -> Result<(), Error> {
        let context = &self.module.context;
        context.ready()?;
        let _current = context.current()?;
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|value| (&raw mut *value).cast::<c_void>()).collect();
        let [grid_x, grid_y, grid_z] = shape.grid;
        let [block_x, block_y, block_z] = shape.block;
        // SAFETY: function and stream are live; there is one pointer for each declared parameter,
        // to a value as large as the declaration, which `unsafe fn declare` made the caller
        // answer for; the driver copies the values before it returns.
        let code = unsafe {
            context.table().launch_kernel()(
                self.raw.get(),
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                shape.shared_bytes,
                stream.raw(),
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        context.check("cuLaunchKernel", code)
    }
}

/// One parameter's bytes, at the start of eight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct ParameterValue([u8; 8]);

impl ParameterValue {
    /// The bytes of a value of at most eight.
    pub(crate) fn new<const N: usize>(bytes: [u8; N]) -> Self {
        const { assert!(N <= 8, "a parameter has at most eight bytes") };
        let mut value = [0; 8];
        for (to, from) in value.iter_mut().zip(bytes) {
            *to = from;
        }
        Self(value)
    }
}
