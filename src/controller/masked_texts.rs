//! The masked texts that statuses show, and who waits for texts to be masked.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    api::NamespacedName,
    logs::{LogPolicy, MaskedLines, MaskedText, Masking, Wanted, WantedText},
};

/// How many bytes of lines all reports may use. At most four times these are kept.
const LINE_BYTES: usize = 2 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct MaskedTexts {
    lines: RefCell<MaskedLines>,
    /// The namespaces for whose objects texts are being masked, and the objects that wait. One request at a time for each
    /// namespace, so that a tenant's texts wait for one request of each other tenant at most.
    waiting: HashMap<String, HashSet<NamespacedName>>,
}

impl Default for MaskedTexts {
    fn default() -> Self {
        Self { lines: RefCell::new(MaskedLines::new(LINE_BYTES)), waiting: HashMap::new() }
    }
}

/// Texts to mask on another thread.
#[derive(Debug)]
pub(super) struct MaskRequest {
    namespace: String,
    policy: Arc<LogPolicy>,
    texts: Vec<WantedText>,
}

#[derive(Debug)]
pub(super) struct MaskAnswer {
    namespace: String,
    texts: Vec<MaskedText>,
}

impl MaskRequest {
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn mask(self) -> MaskAnswer {
        let texts = self.texts.iter().map(|text| text.mask(&self.policy)).collect();
        MaskAnswer { namespace: self.namespace, texts }
    }

    /// The answer if the texts could not be masked: they are masked whole, and not asked for again.
    pub(super) fn failed(&self) -> MaskAnswer {
        let texts = self.texts.iter().map(WantedText::mask_whole).collect();
        MaskAnswer { namespace: self.namespace.clone(), texts }
    }
}

impl MaskedTexts {
    /// Masks the texts of one report on an object in this namespace.
    pub(super) fn masking<'a>(&'a mut self, namespace: &'a str, policy: Option<&'a LogPolicy>) -> Masking<'a> {
        Masking::remembering(policy, namespace, &self.lines)
    }

    /// Asks for texts to be masked on behalf of an object. Returns a request that the caller starts now.
    pub(super) fn ask(
        &mut self,
        object: &NamespacedName,
        policy: &Arc<LogPolicy>,
        wanted: Wanted,
    ) -> Option<MaskRequest> {
        if wanted.texts.is_empty() {
            return None;
        }
        if let Some(waiting) = self.waiting.get_mut(&object.namespace) {
            waiting.insert(object.clone());
            return None;
        }
        self.waiting.insert(object.namespace.clone(), HashSet::from([object.clone()]));
        Some(MaskRequest { namespace: object.namespace.clone(), policy: Arc::clone(policy), texts: wanted.texts })
    }

    /// Remembers masked texts. Returns the objects that wait for these or other texts.
    pub(super) fn answered(&mut self, answer: MaskAnswer) -> HashSet<NamespacedName> {
        let lines = self.lines.get_mut();
        answer.texts.into_iter().for_each(|text| lines.insert(&answer.namespace, text));
        self.waiting.remove(&answer.namespace).unwrap_or_default()
    }

    /// Forgets what no report has used since the last sweep.
    pub(super) fn sweep(&mut self) {
        self.lines.get_mut().sweep();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logs::{MASK, Pattern, clean_text};

    fn policy(pattern: &str) -> Arc<LogPolicy> {
        let redact_patterns = vec![Pattern::new(pattern).unwrap().0];
        Arc::new(LogPolicy { tail_lines: 20, max_bytes: 4096, redact: true, redact_patterns })
    }

    fn ask(
        texts: &mut MaskedTexts,
        object: &NamespacedName,
        policy: &Arc<LogPolicy>,
        text: &str,
    ) -> Option<MaskRequest> {
        let wanted = {
            let masking = texts.masking(&object.namespace, Some(policy));
            assert!(clean_text(text, Some(&masking), 100).contains(MASK));
            masking.take_wanted()
        };
        texts.ask(object, policy, wanted)
    }

    #[test]
    fn masks_for_one_object_of_a_namespace_at_a_time() {
        let mut texts = MaskedTexts::default();
        let [first, second] = ["first", "second"].map(|name| NamespacedName::new("team", name));
        let other = NamespacedName::new("other", "first");
        let policies = ["card [0-9]+", "acct-[0-9]+"].map(policy);
        let request = ask(&mut texts, &first, &policies[0], "card 1").unwrap();
        assert!(ask(&mut texts, &second, &policies[1], "acct-1").is_none(), "the namespace has a request under way");
        assert!(ask(&mut texts, &other, &policies[1], "acct-1").is_some(), "another one does not wait for it");
        let woken = texts.answered(request.mask());
        assert_eq!(woken, HashSet::from([first.clone(), second.clone()]));
        assert!(ask(&mut texts, &first, &policies[0], "card 1").is_none(), "it is remembered");
        assert!(ask(&mut texts, &second, &policies[1], "acct-1").is_some());
    }

    #[test]
    fn texts_that_could_not_be_masked_are_shown_as_masks() {
        let mut texts = MaskedTexts::default();
        let object = NamespacedName::new("team", "first");
        let policy = policy("card [0-9]+");
        let request = ask(&mut texts, &object, &policy, "card 1").unwrap();
        assert_eq!(texts.answered(request.failed()), HashSet::from([object.clone()]));
        let masking = texts.masking("team", Some(&policy));
        assert_eq!(clean_text("card 1", Some(&masking), 100), MASK);
        let wanted = masking.take_wanted();
        assert!(wanted.texts.is_empty() && wanted.is_cut);
        assert!(ask(&mut texts, &object, &policy, "card 2").is_some(), "the namespace has no request under way");
    }

    proptest! {
        #[test]
        fn masks_any_text_by_any_patterns(
            patterns in prop::collection::vec(r"[a-cé\\wWbBds^$|()\[\]?*+{}0-9,:imx-]{1,12}", 1..4),
            texts in prop::collection::vec(prop_oneof![any::<String>(), "[abcé \n\r\t=:/@.-]{0,200}"], 1..4),
        ) {
            let redact_patterns = patterns.iter().filter_map(|text| Some(Pattern::new(text).ok()?.0)).collect();
            let policy = Arc::new(LogPolicy { tail_lines: 20, max_bytes: 4096, redact: true, redact_patterns });
            let (mut memory, object) = (MaskedTexts::default(), NamespacedName::new("team", "first"));
            for text in &texts {
                let wanted = {
                    let masking = memory.masking("team", Some(&policy));
                    let _ = clean_text(text, Some(&masking), 100);
                    masking.take_wanted()
                };
                if let Some(request) = memory.ask(&object, &policy, wanted) {
                    prop_assert_eq!(memory.answered(request.mask()).len(), 1);
                }
            }
        }
    }

    #[test]
    fn long_texts_of_a_namespace_do_not_displace_those_of_another() {
        let lines = RefCell::new(MaskedLines::new(100 * 1024));
        let mut texts = MaskedTexts { lines, waiting: HashMap::new() };
        let long = |index: usize| format!("text {index} {}", "x".repeat(1000));
        let mut show = |namespace: &str, range: std::ops::Range<usize>| {
            let masking = texts.masking(namespace, None);
            range.for_each(|index| drop(clean_text(&long(index), Some(&masking), 2000)));
        };
        show("team", 0..3);
        for _ in 0..4 {
            show("other", 0..1000);
        }
        let lines = texts.lines.borrow();
        assert!((0..3).all(|index| lines.has("team", &long(index))));
        assert!(lines.len() < 500, "they are bounded");
    }

    #[test]
    fn objects_with_equal_patterns_share_texts_within_a_namespace() {
        let mut texts = MaskedTexts::default();
        let [first, second] = ["first", "second"].map(|name| NamespacedName::new("team", name));
        let request = ask(&mut texts, &first, &policy("card [0-9]+"), "card 1").unwrap();
        texts.answered(request.mask());
        assert!(ask(&mut texts, &second, &policy("card [0-9]+"), "card 1").is_none());
        assert!(ask(&mut texts, &NamespacedName::new("other", "a"), &policy("card [0-9]+"), "card 1").is_some());
        assert_eq!(texts.lines.borrow().len(), 1);
        texts.sweep();
        assert_eq!(texts.lines.borrow().len(), 1);
        texts.sweep();
        assert_eq!(texts.lines.borrow().len(), 0);
    }
}
