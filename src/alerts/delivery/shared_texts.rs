//! Shares the texts of incidents between the objects that select the same failing pods, and limits how much memory all texts
//! take.
//!
//! The objects of a tenant may mask different words in the same logs, so that no two texts are equal. So each namespace with
//! objects has a limit, and so have all of them together. What is left for those that have little cannot be taken by others.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use arcstr::ArcStr;

use crate::alerts::{Incident, Texts};

/// The most bytes of texts that the objects of one namespace have: those of four objects with as many as possible.
const OF_NAMESPACE: usize = 2 << 20;
/// The most bytes that are given to any namespace, and the most that are given at all.
const OF_ANY: usize = 10 << 20;
const OF_ALL: usize = 20 << 20;
/// The bytes that a namespace may also have after [`OF_ANY`] are given.
const OF_EACH: usize = 128 << 10;
/// How many there are at least before those that are not used any more are no longer counted.
const SWEEP_AT: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct SharedTexts {
    /// The texts that an object had last for each incident, by its key.
    latest: HashMap<ArcStr, Weak<Texts>>,
    /// All that are in use, and some that are not.
    kept: Vec<Kept>,
    /// The bytes of `kept`: of each namespace, and of all.
    used: HashMap<Arc<str>, usize>,
    all_used: usize,
    left_out: Arc<Texts>,
    sweep_at: usize,
    /// Whether texts were left out since the last sweep.
    is_full: bool,
}

#[derive(Debug)]
struct Kept {
    texts: Weak<Texts>,
    bytes: usize,
    /// The namespace of the object that had them first.
    namespace: Arc<str>,
}

impl Default for SharedTexts {
    fn default() -> Self {
        Self {
            latest: HashMap::new(),
            kept: Vec::new(),
            used: HashMap::new(),
            all_used: 0,
            left_out: Arc::new(Texts::left_out()),
            sweep_at: SWEEP_AT,
            is_full: false,
        }
    }
}

impl SharedTexts {
    /// Replaces the texts of an object's incidents by equal ones that it had before, or that another object has. Leaves out
    /// those for which there is no room. `namespace` is that of the object, and `before` are its incidents so far.
    pub(super) fn share(&mut self, namespace: &str, incidents: &mut [Incident], before: &[Incident]) {
        if self.is_full || self.kept.len() >= self.sweep_at {
            self.sweep();
        }
        let before: HashMap<&str, &Arc<Texts>> =
            before.iter().map(|incident| (incident.key.as_str(), &incident.texts)).collect();
        for incident in incidents {
            incident.texts = self.shared(namespace, incident, before.get(incident.key.as_str()).copied());
        }
    }

    fn shared(&mut self, namespace: &str, incident: &Incident, before: Option<&Arc<Texts>>) -> Arc<Texts> {
        let texts = &incident.texts;
        if *texts == self.left_out {
            return Arc::clone(&self.left_out);
        }
        if let Some(own) = before.filter(|own| *own == texts) {
            return Arc::clone(own);
        }
        if let Some(latest) = self.latest.get(&incident.key).and_then(Weak::upgrade).filter(|latest| latest == texts) {
            return latest;
        }
        let bytes = texts.bytes();
        if !self.has_room(namespace, bytes) {
            self.is_full = true;
            return Arc::clone(&self.left_out);
        }
        let namespace = self.used.get_key_value(namespace).map_or_else(|| namespace.into(), |(own, _)| Arc::clone(own));
        self.count(&namespace, bytes);
        self.kept.push(Kept { texts: Arc::downgrade(texts), bytes, namespace });
        self.latest.insert(incident.key.clone(), Arc::downgrade(texts));
        Arc::clone(texts)
    }

    fn has_room(&self, namespace: &str, bytes: usize) -> bool {
        let own = self.used.get(namespace).copied().unwrap_or_default() + bytes;
        let all = self.all_used + bytes;
        own <= OF_NAMESPACE && (all <= OF_ANY || own <= OF_EACH && all <= OF_ALL)
    }

    fn count(&mut self, namespace: &Arc<str>, bytes: usize) {
        *self.used.entry(Arc::clone(namespace)).or_default() += bytes;
        self.all_used += bytes;
    }

    /// Forgets texts that no incident has any more.
    fn sweep(&mut self) {
        self.kept.retain(|own| own.texts.strong_count() > 0);
        self.latest.retain(|_, texts| texts.strong_count() > 0);
        let kept = std::mem::take(&mut self.kept);
        (self.used, self.all_used) = (HashMap::new(), 0);
        kept.iter().for_each(|own| self.count(&own.namespace, own.bytes));
        self.kept = kept;
        self.kept.shrink_to(2 * self.kept.len());
        self.latest.shrink_to(2 * self.latest.len());
        self.sweep_at = (2 * self.kept.len()).max(SWEEP_AT);
        self.is_full = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Incidents whose texts take about 1 KiB each.
    fn incidents(count: usize, word: &str) -> Vec<Incident> {
        let texts = |number: usize| Texts { message: format!("{word} {number:0>800}"), ..Texts::default() };
        let incident = |number: usize| Incident {
            key: format!("{number:016x}").into(),
            texts: texts(number).into(),
            ..Incident::default()
        };
        (0..count).map(incident).collect()
    }

    fn bytes<'a>(incidents: impl IntoIterator<Item = &'a Incident>) -> usize {
        incidents.into_iter().filter(|own| !own.texts.message.is_empty()).map(|own| own.texts.bytes()).sum()
    }

    #[test]
    fn objects_share_equal_texts() {
        let mut shared = SharedTexts::default();
        let mut objects: Vec<_> = (0..20).map(|_| incidents(100, "a")).collect();
        objects.iter_mut().for_each(|object| shared.share("shop", object, &[]));
        for (own, other) in objects[1..].iter().flat_map(|object| objects[0].iter().zip(object)) {
            assert!(Arc::ptr_eq(&own.texts, &other.texts));
        }
        assert_eq!(shared.kept.len(), 100);
        assert_eq!(shared.used["shop"], bytes(&objects[0]));
    }

    #[test]
    fn an_object_keeps_its_texts_whatever_others_have() {
        let mut shared = SharedTexts::default();
        let mut objects = [incidents(100, "a"), incidents(100, "b")];
        objects.iter_mut().for_each(|object| shared.share("shop", object, &[]));
        for (object, word) in objects.iter().zip(["a", "b"]) {
            let mut again = incidents(100, word);
            shared.share("shop", &mut again, object);
            assert!(again.iter().zip(object).all(|(new, old)| Arc::ptr_eq(&new.texts, &old.texts)));
        }
        assert_eq!(shared.kept.len(), 200);
    }

    #[test]
    fn a_namespace_cannot_leave_others_without_texts() {
        let mut shared = SharedTexts::default();
        let mut kept = Vec::new();
        let mut add = |namespace: &str, word: &str| {
            let mut object = incidents(400, word);
            shared.share(namespace, &mut object, &[]);
            let bytes = bytes(&object);
            kept.extend(object);
            bytes
        };
        let greedy = |number: usize| format!("greedy-{number}");
        for number in 0..8 {
            let of_namespace: usize = (0..20).map(|object| add(&greedy(number), &format!("{number} {object}"))).sum();
            let expected = if number < OF_ANY / OF_NAMESPACE { OF_NAMESPACE } else { OF_EACH };
            assert!((expected - 10_240..=expected).contains(&of_namespace), "{number}: {of_namespace}");
        }
        for number in 0..200 {
            let of_namespace = add(&format!("tenant-{number}"), &format!("tenant {number}"));
            assert!(number >= 70 || of_namespace > OF_EACH - 2048, "{number}: {of_namespace}");
        }
        let all = bytes(&kept);
        assert!((OF_ALL - 2048..=OF_ALL).contains(&all), "{all}");
    }

    #[test]
    fn forgets_texts_that_are_not_used() {
        let mut shared = SharedTexts::default();
        for round in 0..100 {
            let mut object = incidents(1_000, &round.to_string());
            shared.share("shop", &mut object, &[]);
            let has_texts = object.iter().filter(|incident| !incident.texts.message.is_empty()).count();
            assert_eq!(has_texts, 1_000, "round {round}");
        }
        shared.sweep();
        assert_eq!((shared.kept.len(), shared.latest.len(), shared.used.len()), (0, 0, 0));
    }
}
