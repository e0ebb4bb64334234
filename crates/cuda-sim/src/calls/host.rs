//! Modules, kernel launches, host functions.

use std::sync::Arc;

use cuda_sys::CUresult;

use crate::call::Call;
use crate::hazard::Hazard;
use crate::kernel::{Access, KernelArguments, Launch};
use crate::ptx;
use crate::shims::raw::HostCall;
use crate::state::{Answer, Function, Module, State};
use crate::stream::Work;

/// The most threads in a block.
const THREADS_MAX: u64 = 1024;

impl Call {
    pub(crate) fn load_module(&mut self, text: &str) -> Answer<usize> {
        self.usable(self.thread)?;
        let ptx = ptx::parse(text).ok_or(CUresult::CUDA_ERROR_INVALID_IMAGE)?;
        if ptx::newest_for(self.driver_version()) < ptx.version {
            return Err(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
        }
        let entries = ptx.entries.into_iter().map(Arc::new).collect();
        Ok(self.modules.insert(Module { entries, functions: Vec::new() }))
    }

    pub(crate) fn unload_module(&mut self, handle: usize) -> Answer {
        let module = self.modules.remove(handle);
        let module = module.map_err(|unfit| self.stale(unfit, handle))?;
        for function in module.functions {
            let _gone = self.functions.remove(function);
        }
        Ok(())
    }

    pub(crate) fn function(&mut self, module: usize, name: &str) -> Answer<usize> {
        let loaded = self.modules.get(module);
        let entry = match loaded {
            Ok(loaded) => loaded.entries.iter().find(|entry| entry.name == name).cloned(),
            Err(unfit) => return Err(self.stale(unfit, module)),
        };
        let entry = entry.ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        let known = self.functions.live();
        let known = known.filter(|(_, known)| known.module == module && known.entry.name == name);
        if let Some(handle) = known.map(|(handle, _)| handle).next() {
            return Ok(handle);
        }
        let handle = self.functions.insert(Function { module, entry });
        self.modules.get_mut(module)?.functions.push(handle);
        Ok(handle)
    }

    /// The entry behind a function handle.
    pub(crate) fn entry_of(&mut self, handle: usize) -> Answer<Arc<ptx::Entry>> {
        match self.functions.get(handle) {
            Ok(function) => Ok(Arc::clone(&function.entry)),
            Err(unfit) => Err(self.stale(unfit, handle)),
        }
    }

    pub(crate) fn launch(
        &mut self,
        timeline: u32,
        entry: &ptx::Entry,
        values: Vec<Vec<u8>>,
        grid: [u32; 3],
        block: [u32; 3],
    ) -> Answer {
        let threads: u64 = block.iter().map(|&side| u64::from(side)).product();
        if grid.contains(&0) || threads == 0 || THREADS_MAX < threads {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let Some(body) = self.kernel_bodies.get(&entry.name).cloned() else {
            self.report(Hazard::NoKernelBody { kernel: entry.name.clone() });
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        };
        let name = self.kernel_name(&entry.name);
        let arguments = KernelArguments::new(values, grid, block);
        let accesses = body.declared(&arguments).unwrap_or_else(|| self.pointed_at(&arguments));
        let launch = Launch { name, body, arguments, accesses };
        self.enqueue(timeline, Work::Kernel(Arc::new(launch)))
    }

    pub(crate) fn launch_host_function(&mut self, timeline: u32, function: HostCall) -> Answer {
        self.enqueue(timeline, Work::HostFunction(function))
    }
}

impl State {
    /// Every allocation that an argument points into.
    fn pointed_at(&self, arguments: &KernelArguments) -> Vec<Access> {
        let mut accesses: Vec<Access> = Vec::new();
        for value in arguments.eight_byte_values() {
            if let Some((start, mapping)) = self.memory.mapping_at(value) {
                let access = Access::write(start, mapping.bytes);
                if !accesses.contains(&access) {
                    accesses.push(access);
                }
            }
        }
        accesses
    }

    /// The number by which operations carry a kernel's name.
    fn kernel_name(&mut self, name: &str) -> u32 {
        let known = self.kernel_names.iter().position(|known| &**known == name);
        let position = known.unwrap_or_else(|| {
            self.kernel_names.push(Arc::from(name));
            self.kernel_names.len() - 1
        });
        u32::try_from(position).expect("fewer than 2^32 kernels are named")
    }
}
