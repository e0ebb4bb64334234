//! The simulated driver, called as the real one is.

mod hazards;
mod rig;
