// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is known of the objects: what the watching thread writes and the others read.

use std::collections::BTreeMap;
use std::time::Duration;

use super::object::Object;
use crate::control::source::{SourceErrorReason, SourceErrors};
use crate::control::{Known, Shard, ShardFault, ShardList};

/// Objects by their name in the namespace, each as it was read.
pub(super) type Objects = BTreeMap<String, Result<Shard, ShardFault>>;

/// The objects as of the last word of the server. Calls that change something say whether a reader
/// would see a difference.
#[derive(Debug)]
pub(super) struct View {
    objects: Known<Objects>,
    /// The last failure, until the server is well again; also before there is a list.
    failure: Option<String>,
    errors: SourceErrors,
}

impl View {
    pub(super) fn new() -> Self {
        Self {
            objects: Known::Unknown,
            failure: None,
            errors: SourceErrors::default(),
        }
    }

    pub(super) fn list(&self) -> Known<ShardList> {
        self.objects.clone().map(|objects| {
            let mut list = ShardList::default();
            for object in objects.into_values() {
                match object {
                    Ok(shard) => list.shards.push(shard),
                    Err(fault) => list.faults.push(fault),
                }
            }
            list
        })
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    pub(super) fn errors(&self) -> SourceErrors {
        self.errors
    }

    /// A complete list takes the place of the one before.
    pub(super) fn replace(&mut self, objects: Objects) -> bool {
        self.failure = None;
        let known = Known::Known(objects);
        let changed = self.objects != known;
        self.objects = known;
        changed
    }

    /// An object that is new or reads otherwise. Nothing is known from one alone.
    pub(super) fn apply(&mut self, Object { name, read }: Object) -> bool {
        match &mut self.objects {
            Known::Unknown => false,
            Known::Known(objects) | Known::Stale { value: objects, .. } => {
                let same = objects.get(&name) == Some(&read);
                if !same {
                    objects.insert(name, read);
                }
                !same
            }
        }
    }

    /// An object that is no more.
    pub(super) fn delete(&mut self, name: &str) -> bool {
        match &mut self.objects {
            Known::Unknown => false,
            Known::Known(objects) | Known::Stale { value: objects, .. } => {
                objects.remove(name).is_some()
            }
        }
    }

    /// The server tells changes again.
    pub(super) fn resume(&mut self) -> bool {
        self.failure = None;
        match std::mem::replace(&mut self.objects, Known::Unknown) {
            Known::Stale { value, .. } => {
                self.objects = Known::Known(value);
                true
            }
            known => {
                self.objects = known;
                false
            }
        }
    }

    /// The server does not tell changes, or not so that they can be read. What was known stays.
    pub(super) fn fail(&mut self, reason: SourceErrorReason, why: String, now: Duration) -> bool {
        self.errors.count(reason);
        let known = std::mem::replace(&mut self.objects, Known::Unknown);
        let was_current = known.is_current();
        let news = self.failure.as_ref() != Some(&why);
        self.objects = known.lost(now, why.clone());
        self.failure = Some(why);
        was_current || news
    }

    /// Counts what is of no consequence to what is known.
    pub(super) fn count(&mut self, reason: SourceErrorReason) {
        self.errors.count(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    fn object(name: &str, drain: &str) -> Object {
        let text = format!(
            r#"{{"metadata": {{"name": "{name}", "namespace": "n"}}, "spec": {{"drain": {drain}}}}}"#
        );
        Object::read(&serde_json::value::RawValue::from_string(text).expect("JSON"))
    }

    fn listed(names: &[&str]) -> Objects {
        let objects = names.iter().map(|name| object(name, "false"));
        objects.map(|object| (object.name, object.read)).collect()
    }

    fn names(known: &Known<ShardList>) -> Vec<&str> {
        let list = known.value().expect("a list");
        list.shards
            .iter()
            .map(|shard| shard.name.as_str())
            .collect()
    }

    fn fail(view: &mut View, why: &str, now: Duration) -> bool {
        view.fail(SourceErrorReason::Closed, why.to_owned(), now)
    }

    #[test]
    fn nothing_but_a_complete_list_makes_it_known() {
        let mut view = View::new();
        assert!(!view.apply(object("a", "false")) && !view.delete("a") && !view.resume());
        assert!(fail(&mut view, "closed", NOW));
        assert_eq!(view.list(), Known::Unknown);
        assert_eq!(view.failure().as_deref(), Some("closed"));
        assert!(view.replace(Objects::new()));
        assert_eq!(view.list(), Known::Known(ShardList::default()));
        assert_eq!(view.failure(), None);
    }

    #[test]
    fn a_failure_keeps_the_list_and_the_first_time() {
        let mut view = View::new();
        view.replace(listed(&["a", "b"]));
        assert!(fail(&mut view, "closed", NOW));
        assert!(!fail(&mut view, "closed", NOW * 2), "no news");
        assert!(fail(&mut view, "refused", NOW * 3), "another reason");
        let list = view.list();
        assert_eq!(names(&list), ["n/a", "n/b"]);
        let Known::Stale { since, why, .. } = list else {
            panic!("stale, not {list:?}");
        };
        assert_eq!((since, why.as_str()), (NOW, "refused"));
        assert_eq!(view.errors().get(SourceErrorReason::Closed), 3);
    }

    #[test]
    fn changes_are_seen_while_stale_and_after() {
        let mut view = View::new();
        view.replace(listed(&["a", "b"]));
        fail(&mut view, "closed", NOW);
        assert!(view.apply(object("c", "false")) && view.delete("a"));
        assert!(!view.list().is_current());
        assert!(view.resume() && !view.resume());
        assert!(view.list().is_current());
        assert_eq!(names(&view.list()), ["n/b", "n/c"]);
    }

    #[test]
    fn what_reads_the_same_is_no_change() {
        let mut view = View::new();
        view.replace(listed(&["a"]));
        assert!(!view.replace(listed(&["a"])));
        assert!(!view.apply(object("a", "false")) && !view.delete("b"));
        assert!(view.apply(object("a", "true")));
        assert!(view.replace(listed(&["a"])));
    }

    #[test]
    fn an_object_that_cannot_be_read_takes_its_shard_out_alone() {
        let mut view = View::new();
        view.replace(listed(&["a", "b"]));
        assert!(view.apply(object("a", "7")));
        let list = view.list();
        assert_eq!(names(&list), ["n/b"]);
        let faults = &list.value().expect("a list").faults;
        assert!(faults[0].to_string().contains("spec.drain"), "{faults:?}");
        assert_eq!(faults.len(), 1);
    }
}
