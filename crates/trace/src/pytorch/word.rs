//! The words a snapshot is made of: keys, actions, states and what else repeats in every entry.

/// Makes the enum and both directions of its table from one list.
macro_rules! words {
    ($($name:ident $text:literal)*) => {
        /// One of the texts that snapshots repeat.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Word { $($name),* }

        impl Word {
            /// The word that `text` is, if it is one.
            #[inline]
            pub(super) fn find(text: &[u8]) -> Option<Self> {
                match text {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The word with this [`Self::code`].
            #[inline(always)]
            pub(super) fn of_code(code: usize) -> Option<Self> {
                const ALL: &[Word] = &[$(Word::$name),*];
                ALL.get(code).copied()
            }

            /// Its position in the list.
            #[inline]
            pub(super) const fn code(self) -> u8 {
                self as u8
            }

            /// Its bytes, as a file spells it.
            pub(super) const fn text(self) -> &'static [u8] {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

words! {
    Nothing b""
    NotApplicable b"N/A"
    Action b"action"
    Addr b"addr"
    Size b"size"
    Stream b"stream"
    TimeUs b"time_us"
    DeviceFree b"device_free"
    Alloc b"alloc"
    Free b"free"
    FreeRequested b"free_requested"
    FreeCompleted b"free_completed"
    SegmentAlloc b"segment_alloc"
    SegmentFree b"segment_free"
    SegmentMap b"segment_map"
    SegmentUnmap b"segment_unmap"
    Snapshot b"snapshot"
    Oom b"oom"
    Annotate b"annotate"
    Segments b"segments"
    DeviceTraces b"device_traces"
    AllocatorSettings b"allocator_settings"
    Device b"device"
    Address b"address"
    TotalSize b"total_size"
    SegmentType b"segment_type"
    SegmentPoolId b"segment_pool_id"
    IsExpandable b"is_expandable"
    Blocks b"blocks"
    RequestedSize b"requested_size"
    State b"state"
    ActiveAllocated b"active_allocated"
    ActivePendingFree b"active_pending_free"
    ActiveAwaitingFree b"active_awaiting_free"
    Inactive b"inactive"
    Small b"small"
    Large b"large"
    Configuration b"PYTORCH_CUDA_ALLOC_CONF"
    MaxSplitSize b"max_split_size"
    GarbageCollectionThreshold b"garbage_collection_threshold"
    ExpandableSegments b"expandable_segments"
    RoundupPower2Divisions b"roundup_power2_divisions"
    CompileContext b"compile_context"
    UserMetadata b"user_metadata"
    PoolId b"pool_id"
    Frames b"frames"
    Filename b"filename"
    Line b"line"
    Name b"name"
    History b"history"
    RealSize b"real_size"
    ExternalAnnotations b"external_annotations"
    Stage b"stage"
    Start b"START"
    End b"END"
    HostSegments b"host_segments"
    HostTraces b"host_traces"
    AllocatedSize b"allocated_size"
    ActiveSize b"active_size"
    Overflowed b"trace_alloc_overflowed"
    MadeOf b"wellspring_made_of"
    MadeUpSegments b"wellspring_made_up_segments"
}
