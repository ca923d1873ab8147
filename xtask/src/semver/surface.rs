//! The public items of a crate, from rustdoc's JSON.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// The public items by path and kind.
#[derive(Debug, Default)]
pub(crate) struct Surface {
    pub(crate) version: String,
    pub(crate) items: BTreeMap<String, Shape>,
}

/// What users can rely on of an item, its members left out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    text: String,
    /// Users that match on an enum or implement a trait must follow an addition.
    pub(crate) breaks_when_added: bool,
}

#[derive(Debug, Deserialize)]
struct Crate {
    root: u32,
    #[serde(rename = "crate_version")]
    version: Option<String>,
    index: HashMap<u32, Item>,
}

#[derive(Debug, Deserialize)]
struct Item {
    name: Option<String>,
    visibility: Value,
    attrs: Value,
    inner: Value,
}

impl Surface {
    /// Reads the description of one crate.
    pub(crate) fn read(json: &[u8]) -> Result<Self> {
        let described: Crate = serde_json::from_slice(json).context("not rustdoc's JSON")?;
        let mut surface =
            Self { version: described.version.clone().unwrap_or_default(), ..Self::default() };
        let root = described.index.get(&described.root).context("no root module")?;
        let name = root.name.clone().unwrap_or_default();
        surface.visit(&described, root, &name, false);
        Ok(surface)
    }

    /// One that holds these items, without a description.
    #[cfg(test)]
    pub(crate) fn of<'a>(items: impl IntoIterator<Item = (&'a str, bool)>) -> Self {
        let shape = |breaks_when_added| Shape { text: String::new(), breaks_when_added };
        let items = items.into_iter().map(|(item, must)| (item.to_owned(), shape(must))).collect();
        Self { version: String::new(), items }
    }

    /// Whether users reach anything as `path`.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let after = self.items.range(format!("{path} (")..).next();
        after.is_some_and(|(item, _)| item.starts_with(&format!("{path} (")))
    }

    /// Notes an item that users reach as `path`, and what it holds.
    fn visit(&mut self, all: &Crate, item: &Item, path: &str, must_follow: bool) {
        let Some((kind, inner)) = item.inner.as_object().and_then(|inner| inner.iter().next())
        else {
            return;
        };
        match kind.as_str() {
            "module" => self.visit_all(all, &inner["items"], path, false),
            "use" => self.visit_use(all, inner, path),
            "impl" => self.visit_impl(all, inner, path),
            _ => {
                let open = item.attrs.to_string().contains("non_exhaustive");
                let text = format!("{}{}", if open { "open " } else { "" }, bare(inner));
                let breaks_when_added = must_follow && inner["has_body"] != Value::Bool(true);
                let shape = Shape { text, breaks_when_added };
                self.items.insert(format!("{path} ({kind})"), shape);
                self.visit_all(all, &inner["items"], path, kind == "trait");
                self.visit_all(all, &inner["variants"], path, !open);
                self.visit_all(all, &inner["impls"], path, false);
                for fields in [&inner["fields"], &inner["kind"]["plain"]["fields"]] {
                    self.visit_all(all, fields, path, false);
                }
                for fields in [&inner["kind"]["struct"]["fields"], &inner["kind"]["tuple"]] {
                    self.visit_all(all, fields, path, false);
                }
            }
        }
    }

    /// Notes the public ones among the members of an item.
    fn visit_all(&mut self, all: &Crate, ids: &Value, path: &str, must_follow: bool) {
        for id in ids.as_array().into_iter().flatten() {
            let Some(item) = find(all, id) else { continue };
            // What is neither `pub` nor private stands in a trait, an enum or an impl.
            if !matches!(item.visibility.as_str(), Some("public" | "default")) {
                continue;
            }
            match &item.name {
                Some(name) if item.inner.get("use").is_none() => {
                    self.visit(all, item, &format!("{path}::{name}"), must_follow);
                }
                _ => self.visit(all, item, path, must_follow),
            }
        }
    }

    /// Follows a `pub use` to what it names, under the name that it gives.
    fn visit_use(&mut self, all: &Crate, inner: &Value, path: &str) {
        let target = find(all, &inner["id"]);
        let name = inner["name"].as_str().unwrap_or_default();
        match target {
            Some(target) if inner["is_glob"] == Value::Bool(true) => {
                self.visit(all, target, path, false);
            }
            Some(target) => self.visit(all, target, &format!("{path}::{name}"), false),
            None => {
                let shape = Shape { text: inner["source"].to_string(), breaks_when_added: false };
                self.items.insert(format!("{path}::{name} (use)"), shape);
            }
        }
    }

    /// Notes an implemented trait, or the members of a bare `impl`.
    fn visit_impl(&mut self, all: &Crate, inner: &Value, path: &str) {
        if !inner["blanket_impl"].is_null() {
            return;
        }
        if inner["trait"].is_null() {
            self.visit_all(all, &inner["items"], path, false);
            return;
        }
        let not = if inner["is_negative"] == Value::Bool(true) { "not " } else { "" };
        let item = format!("{path}: {not}{} (impl)", bare(&inner["trait"]));
        let shape = Shape { text: bare(&inner["generics"]), breaks_when_added: false };
        self.items.insert(item, shape);
    }
}

fn find<'a>(all: &'a Crate, id: &Value) -> Option<&'a Item> {
    all.index.get(&u32::try_from(id.as_u64()?).ok()?)
}

/// A description without what differs from one run to the next, or is a member with a line of its
/// own.
fn bare(value: &Value) -> String {
    const LEFT_OUT: [&str; 7] =
        ["id", "items", "impls", "variants", "implementations", "fields", "tuple"];
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, value)| {
                !LEFT_OUT.contains(&name.as_str()) || (*name == "tuple" && !is_ids(value))
            });
            let texts: Vec<_> =
                kept.map(|(name, value)| format!("{name}:{}", bare(value))).collect();
            format!("{{{}}}", texts.join(","))
        }
        Value::Array(values) => {
            let texts: Vec<_> = values.iter().map(bare).collect();
            format!("[{}]", texts.join(","))
        }
        plain => plain.to_string(),
    }
}

/// Whether these are the fields of a tuple struct, not the types of a tuple.
fn is_ids(value: &Value) -> bool {
    value.as_array().is_some_and(|ids| ids.iter().all(|id| id.is_u64() || id.is_null()))
}
