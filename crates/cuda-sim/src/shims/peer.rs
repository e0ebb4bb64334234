//! Several devices.

use std::ffi::{c_int, c_uint};

use cuda_sys::{CUctx_st, CUdevice, CUresult};

use super::raw::Pointer;
use super::shims;
use crate::call::Call;
use crate::state::Answer;

/// The current context and the peer's, which must be another whole one.
fn pair(call: &mut Call, peer: Pointer<CUctx_st>) -> Answer<(usize, usize)> {
    let own = call.usable(call.thread)?;
    let peer = call.context_handles.get(peer.address()).copied();
    let peer = peer.map_err(|_| CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    call.check_context(peer)?;
    if call.context(own).device == call.context(peer).device {
        return Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
    }
    Ok((own, peer))
}

fn can_access(call: &mut Call, device: usize, peer: usize) -> bool {
    device != peer
        && call.device_mut(device).profile.peer_access
        && call.device_mut(peer).profile.peer_access
}

shims! {
    "cuDeviceCanAccessPeer" device_can_access_peer(
        call,
        out: *mut c_int,
        device: CUdevice,
        peer: CUdevice,
    ) {
        let (device, peer) = (call.device(device)?, call.device(peer)?);
        let possible = can_access(call, device, peer);
        out.put(c_int::from(possible))
    }

    "cuCtxEnablePeerAccess" ctx_enable_peer_access(
        call,
        peer: *mut CUctx_st,
        flags: c_uint,
    ) {
        let (own, peer) = pair(call, peer)?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let devices = (call.context(own).device, call.context(peer).device);
        if !can_access(call, devices.0, devices.1) {
            return Err(CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        }
        let peers = &mut call.context_mut(own).peers;
        if peers.contains(&peer) {
            return Err(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        }
        peers.push(peer);
        Ok(())
    }

    "cuCtxDisablePeerAccess" ctx_disable_peer_access(call, peer: *mut CUctx_st) {
        let (own, peer) = pair(call, peer)?;
        let peers = &mut call.context_mut(own).peers;
        let position = peers.iter().position(|known| *known == peer);
        let position = position.ok_or(CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)?;
        peers.remove(position);
        Ok(())
    }
}
