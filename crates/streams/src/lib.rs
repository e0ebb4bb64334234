//! CUDA streams and events with an order that is known.
