//! A software CUDA driver behind the same function table.
