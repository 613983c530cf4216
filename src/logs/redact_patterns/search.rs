//! Searches a text for a pattern, and counts the steps.
//!
//! This is the simulation of Pike, as in regex-automata's `PikeVM`, because none of the engines of that crate can stop when
//! a search takes too long, or tell how far beyond a match it has read: a pattern such as `a[^z]*z|a` reads to the end of
//! the text for every match. Like those engines, it finds the leftmost match, and of those the one that the pattern
//! prefers.

use std::{mem, ops::Range};

use regex_automata::{nfa::thompson::State, util::primitives::StateID};

use super::Automaton;

/// A search took more steps than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfSteps;

/// The search of one pattern in one text.
pub(super) struct Search<'a> {
    automaton: &'a Automaton,
    text: &'a str,
    steps: u64,
    limit: u64,
    current: Threads,
    next: Threads,
    /// The states to visit at the same place, the preferred one last.
    stack: Vec<StateID>,
}

/// The states that were reached at a place in the text, the preferred one first, each with the start of its match.
#[derive(Debug)]
struct Threads {
    list: Vec<(StateID, usize)>,
    /// For each state, the visit in which it was last reached.
    seen: Vec<u32>,
    visit: u32,
}

impl Threads {
    fn new(states: usize) -> Self {
        Self { list: Vec::new(), seen: vec![0; states], visit: 1 }
    }

    fn clear(&mut self) {
        self.list.clear();
        self.visit = self.visit.wrapping_add(1);
        if self.visit == 0 {
            self.seen.fill(0);
            self.visit = 1;
        }
    }

    /// Returns whether the state is reached for the first time.
    fn reach(&mut self, id: StateID) -> bool {
        self.seen.get_mut(id.as_usize()).is_some_and(|seen| mem::replace(seen, self.visit) != self.visit)
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(automaton: &'a Automaton, text: &'a str, limit: u64) -> Self {
        let states = automaton.nfa.states().len();
        let (current, next) = (Threads::new(states), Threads::new(states));
        Self { automaton, text, steps: 0, limit, current, next, stack: Vec::new() }
    }

    /// The steps of all searches so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The first match that starts at `from` or later, and before `end`. An empty match may be left out. If there are not
    /// enough steps, the error is a place before which no match starts.
    pub(super) fn next_from(&mut self, from: usize, end: usize) -> Result<Option<Range<usize>>, usize> {
        self.current.clear();
        let mut at = from;
        self.search(&mut at, end).map_err(|OutOfSteps| {
            let starts = self.current.list.iter().map(|(_, start)| *start);
            starts.min().unwrap_or(at)
        })
    }

    fn search(&mut self, place: &mut usize, end: usize) -> Result<Option<Range<usize>>, OutOfSteps> {
        let bytes = self.text.as_bytes();
        let start = self.automaton.nfa.start_anchored();
        let mut found: Option<Range<usize>> = None;
        let mut at = *place;
        loop {
            self.next.clear();
            if self.current.list.is_empty() {
                if found.is_some() {
                    return Ok(found);
                }
                let rest = bytes.get(at..end).unwrap_or_default();
                let skipped = rest.iter().take_while(|&&byte| !self.automaton.first[usize::from(byte)]).count();
                self.count(skipped as u64)?;
                at += skipped;
                *place = at;
                if at >= end {
                    return Ok(None);
                }
                self.follow(start, at, at)?;
                if self.next.list.is_empty() {
                    // An assertion does not hold here.
                    at += 1;
                }
            } else {
                if let Some(earlier) = self.advance(at)? {
                    found = Some(earlier);
                }
                if at == bytes.len() {
                    return Ok(found);
                }
                at += 1;
                // A match that starts here is less preferred than those that have started.
                let next = bytes.get(at).filter(|_| at < end && found.is_none());
                if next.is_some_and(|&byte| self.automaton.first[usize::from(byte)]) {
                    self.follow(start, at, at)?;
                }
            }
            mem::swap(&mut self.current, &mut self.next);
        }
    }

    /// Whether the pattern matches an empty part of the text. Only for texts of a few bytes.
    pub(super) fn matches_empty(&mut self) -> bool {
        (0..=self.text.len()).any(|at| {
            self.next.clear();
            _ = self.follow(self.automaton.nfa.start_anchored(), at, at);
            self.next.list.iter().any(|(id, _)| matches!(self.automaton.nfa.state(*id), State::Match { .. }))
        })
    }

    /// Moves all threads over the byte at this place, to `next`. Returns a match that ends before it.
    fn advance(&mut self, at: usize) -> Result<Option<Range<usize>>, OutOfSteps> {
        let byte = self.text.as_bytes().get(at).copied();
        let mut found = None;
        for index in 0..self.current.list.len() {
            let Some(&(id, start)) = self.current.list.get(index) else { break };
            self.count(1)?;
            let target = match (self.automaton.nfa.state(id), byte) {
                (State::Match { .. }, _) => {
                    // The threads after it are less preferred.
                    found = Some(start..at);
                    break;
                }
                (State::ByteRange { trans }, Some(byte)) => trans.matches_byte(byte).then_some(trans.next),
                (State::Sparse(sparse), Some(byte)) => {
                    let index = sparse.transitions.partition_point(|trans| trans.end < byte);
                    sparse.transitions.get(index).filter(|trans| trans.start <= byte).map(|trans| trans.next)
                }
                (State::Dense(dense), Some(byte)) => dense.matches_byte(byte),
                _ => None,
            };
            if let Some(target) = target {
                self.follow(target, start, at + 1)?;
            }
        }
        Ok(found)
    }

    /// Adds to `next` the states that are reached from `id` without a byte.
    fn follow(&mut self, id: StateID, start: usize, at: usize) -> Result<(), OutOfSteps> {
        let nfa = &self.automaton.nfa;
        self.stack.clear();
        self.stack.push(id);
        while let Some(id) = self.stack.pop() {
            self.count(1)?;
            if !self.next.reach(id) {
                continue;
            }
            match nfa.state(id) {
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) | State::Match { .. } => {
                    self.next.list.push((id, start));
                }
                State::Look { look, next } => {
                    if nfa.look_matcher().matches(*look, self.text.as_bytes(), at) {
                        self.stack.push(*next);
                    }
                }
                State::Union { alternates } => self.stack.extend(alternates.iter().rev()),
                State::BinaryUnion { alt1, alt2 } => self.stack.extend([*alt2, *alt1]),
                State::Capture { next, .. } => self.stack.push(*next),
                State::Fail => {}
            }
        }
        Ok(())
    }

    fn count(&mut self, steps: u64) -> Result<(), OutOfSteps> {
        if self.limit - self.steps < steps {
            // So that a search that was cut has taken exactly its share.
            self.steps = self.limit;
            return Err(OutOfSteps);
        }
        self.steps += steps;
        Ok(())
    }
}
