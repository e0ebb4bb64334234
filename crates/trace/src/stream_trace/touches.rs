//! Reads what an operation touches from JSON, and no more of it than an entry can have.

use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use super::item::Touch;

/// The most that one operation touches: a touch takes four bytes at least in an entry of 1 MiB.
const TOUCHES_MAX: usize = 1 << 18;

/// Reads the touches of an operation, and refuses more than an entry can have.
pub(super) fn touches<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Touch>, D::Error> {
    struct Touches;

    impl<'de> Visitor<'de> for Touches {
        type Value = Vec<Touch>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(formatter, "a list of at most {TOUCHES_MAX} touches")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Touch>, A::Error> {
            let mut touches = Vec::new();
            while let Some(touch) = items.next_element()? {
                if touches.len() == TOUCHES_MAX {
                    return Err(A::Error::invalid_length(TOUCHES_MAX + 1, &self));
                }
                touches.push(touch);
            }
            Ok(touches)
        }
    }

    deserializer.deserialize_seq(Touches)
}
