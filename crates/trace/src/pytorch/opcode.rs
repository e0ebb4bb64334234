//! The pickle opcodes of protocols 2 to 5: which are read, and the names of those that are not.

/// Opcodes that are read. Each one only makes plain values out of the bytes that follow it.
pub(super) mod allowed {
    pub(in super::super) const PROTO: u8 = 0x80;
    pub(in super::super) const FRAME: u8 = 0x95;
    pub(in super::super) const STOP: u8 = b'.';
    pub(in super::super) const MARK: u8 = b'(';
    pub(in super::super) const POP: u8 = b'0';
    pub(in super::super) const POP_MARK: u8 = b'1';
    pub(in super::super) const DUP: u8 = b'2';
    pub(in super::super) const NONE: u8 = b'N';
    pub(in super::super) const NEWTRUE: u8 = 0x88;
    pub(in super::super) const NEWFALSE: u8 = 0x89;
    pub(in super::super) const BININT: u8 = b'J';
    pub(in super::super) const BININT1: u8 = b'K';
    pub(in super::super) const BININT2: u8 = b'M';
    pub(in super::super) const LONG1: u8 = 0x8a;
    pub(in super::super) const LONG4: u8 = 0x8b;
    pub(in super::super) const BINFLOAT: u8 = b'G';
    pub(in super::super) const SHORT_BINUNICODE: u8 = 0x8c;
    pub(in super::super) const BINUNICODE: u8 = b'X';
    pub(in super::super) const BINUNICODE8: u8 = 0x8d;
    pub(in super::super) const SHORT_BINBYTES: u8 = b'C';
    pub(in super::super) const BINBYTES: u8 = b'B';
    pub(in super::super) const BINBYTES8: u8 = 0x8e;
    pub(in super::super) const BYTEARRAY8: u8 = 0x96;
    pub(in super::super) const EMPTY_LIST: u8 = b']';
    pub(in super::super) const LIST: u8 = b'l';
    pub(in super::super) const APPEND: u8 = b'a';
    pub(in super::super) const APPENDS: u8 = b'e';
    pub(in super::super) const EMPTY_TUPLE: u8 = b')';
    pub(in super::super) const TUPLE: u8 = b't';
    pub(in super::super) const TUPLE1: u8 = 0x85;
    pub(in super::super) const TUPLE2: u8 = 0x86;
    pub(in super::super) const TUPLE3: u8 = 0x87;
    pub(in super::super) const EMPTY_DICT: u8 = b'}';
    pub(in super::super) const DICT: u8 = b'd';
    pub(in super::super) const SETITEM: u8 = b's';
    pub(in super::super) const SETITEMS: u8 = b'u';
    pub(in super::super) const BINGET: u8 = b'h';
    pub(in super::super) const LONG_BINGET: u8 = b'j';
    pub(in super::super) const BINPUT: u8 = b'q';
    pub(in super::super) const LONG_BINPUT: u8 = b'r';
    pub(in super::super) const MEMOIZE: u8 = 0x94;
}

/// The name of an opcode that Python knows and this reader refuses.
///
/// Some of them import names and call them, some need the caller's help to find objects, some
/// are the text forms of protocols 0 and 1, and sets are what no snapshot holds.
pub(super) const fn refused_name(code: u8) -> Option<&'static str> {
    Some(match code {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        0x8f => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        b'I' => "INT",
        b'L' => "LONG",
        b'F' => "FLOAT",
        b'S' => "STRING",
        b'T' => "BINSTRING",
        b'U' => "SHORT_BINSTRING",
        b'V' => "UNICODE",
        b'g' => "GET",
        b'p' => "PUT",
        _ => return None,
    })
}
