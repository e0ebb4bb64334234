//! Reads the entries of a stream trace that stand behind the events; see `keep`.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::stream_trace::{Builder, Item, Refusal};

/// What was read so far.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) builder: Builder,
    pub(super) is_complete: bool,
}

/// The value of the file's key, or one of the lists in it.
pub(super) struct Part<'a> {
    kept: &'a mut Kept,
    list: Option<List>,
}

#[derive(Debug, Clone, Copy)]
enum List {
    Texts,
    Places,
    Entries,
}

impl<'a> Part<'a> {
    pub(super) const fn whole(kept: &'a mut Kept) -> Self {
        Self { kept, list: None }
    }

    const fn of(kept: &'a mut Kept, list: List) -> Self {
        Self { kept, list: Some(list) }
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.list {
            None => deserializer.deserialize_map(self),
            Some(_) => deserializer.deserialize_seq(self),
        }
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.list {
            None => "the entries of a stream trace",
            Some(List::Texts) => "the list of texts",
            Some(List::Places) => "the list of places",
            Some(List::Entries) => "the list of entries",
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!("the key `{key}` is there twice")));
            }
            match key.as_str() {
                "unix_ns" => self.kept.builder.set_unix_ns(map.next_value()?),
                "complete" => self.kept.is_complete = map.next_value()?,
                "texts" => map.next_value_seed(Part::of(self.kept, List::Texts))?,
                // The entries name the others by number, and places their texts.
                "places" if seen == ["unix_ns", "complete", "texts"] => {
                    map.next_value_seed(Part::of(self.kept, List::Places))?;
                }
                "entries" if seen == ["unix_ns", "complete", "texts", "places"] => {
                    map.next_value_seed(Part::of(self.kept, List::Entries))?;
                }
                "places" | "entries" => {
                    return Err(A::Error::custom(format_args!("the key `{key}` comes too early")));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            }
            seen.push(key);
        }
        if seen.iter().any(|key| key == "entries") {
            Ok(())
        } else {
            Err(A::Error::custom("the key `entries` is missing"))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let builder = &mut self.kept.builder;
        let mut position = 0_usize;
        let refused = |list, position, refusal| {
            A::Error::custom(format_args!("{list}[{position}]: {}", told(refusal)))
        };
        match self.list {
            Some(List::Texts) => {
                while let Some(text) = items.next_element::<String>()? {
                    let taken = builder.declare_text(&text);
                    taken.map_err(|refusal| refused("texts", position, refusal))?;
                    position += 1;
                }
            }
            Some(List::Places) => {
                while let Some((file, line, column)) = items.next_element::<(String, u32, u32)>()? {
                    let taken = builder.declare_place(&file, line, column);
                    taken.map_err(|refusal| refused("places", position, refusal))?;
                    position += 1;
                }
            }
            Some(List::Entries) | None => {
                while let Some((host_ns, item)) = items.next_element::<(u64, Item)>()? {
                    let taken = builder.put(0, host_ns, item);
                    taken.map_err(|refusal| refused("entries", position, refusal))?;
                    position += 1;
                }
            }
        }
        Ok(())
    }
}

fn told(refusal: Refusal) -> String {
    match refusal {
        Refusal::Malformed(problem) => problem.to_string(),
        Refusal::TooMuchMemory { limit } => {
            format!("the values need more than {limit} bytes of memory")
        }
    }
}
