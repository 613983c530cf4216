//! Simulates replicas with their own clocks, an API server and a network that loses and delays requests, and checks that
//! two replicas never lead at the same time.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use proptest::prelude::*;

use super::{
    decide::{Action, Answer, Candidate},
    uptime::Uptime,
};

/// A step of the simulation, in true milliseconds.
const STEP: u64 = 20;
/// How long faults happen, and how long after the last one there must be a leader.
const FAULTS: u64 = 120_000;
const QUIET: u64 = 120_000;
/// How long after an old release was restored no replica starts: a leader leads for 10 s of its own clock at most.
const RELEASE_NOTICED: u64 = 12_000;
/// How long a replica waits for an answer, in its own milliseconds.
const PATIENCE: Duration = Duration::from_secs(4);

#[derive(Clone, Debug)]
enum Fault {
    /// A replica is stopped, and continues.
    Pause {
        replica: usize,
        millis: u64,
    },
    /// No request or answer of a replica arrives.
    Cut {
        replica: usize,
        millis: u64,
    },
    /// The requests of a replica arrive late, also after it has given up.
    Slow {
        replica: usize,
        millis: u64,
        delay: u64,
    },
    /// A replica is killed. Another process takes its place.
    Kill {
        replica: usize,
    },
    /// A replica ends in good order. Another process takes its place.
    End {
        replica: usize,
    },
    Delete,
    /// Someone writes this spec.
    Edit {
        holder: Holder,
        seconds: Option<i32>,
        transitions: Option<i32>,
    },
}

/// A holder that someone writes by hand.
#[derive(Clone, Debug)]
enum Holder {
    Nobody,
    Named(&'static str),
    /// A replica that runs.
    Replica(usize),
}

fn fault() -> impl Strategy<Value = Fault> {
    let replica = 0..3_usize;
    let millis = 100..40_000_u64;
    prop_oneof![
        (replica.clone(), millis.clone()).prop_map(|(replica, millis)| Fault::Pause { replica, millis }),
        (replica.clone(), millis.clone()).prop_map(|(replica, millis)| Fault::Cut { replica, millis }),
        (replica.clone(), millis, 0..20_000_u64).prop_map(|(replica, millis, delay)| Fault::Slow {
            replica,
            millis,
            delay
        }),
        replica.clone().prop_map(|replica| Fault::Kill { replica }),
        replica.clone().prop_map(|replica| Fault::End { replica }),
        Just(Fault::Delete),
        (
            prop_oneof![
                Just(Holder::Nobody),
                Just(Holder::Named("")),
                Just(Holder::Named("someone")),
                replica.prop_map(Holder::Replica),
            ],
            // 1 without a holder is an old release that someone restores.
            prop_oneof![Just(None), Just(Some(0)), Just(Some(-5)), Just(Some(1)), Just(Some(15)), Just(Some(i32::MAX))],
            prop_oneof![Just(None), Just(Some(-1)), Just(Some(i32::MAX))],
        )
            .prop_map(|(holder, seconds, transitions)| Fault::Edit { holder, seconds, transitions }),
    ]
}

/// A clock: how far it is ahead, and how fast it runs in thousandths.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ahead: u64,
    rate: u64,
}

impl Clock {
    fn at(self, millis: u64) -> Uptime {
        Uptime::from_nanos((self.ahead + millis * self.rate / 1000) * 1_000_000)
    }
}

struct Replica {
    candidate: Candidate,
    clock: Clock,
    process: usize,
    paused_until: u64,
    cut_until: u64,
    slow: (u64, u64),
    sent: Option<Uptime>,
    /// It ends: it does not lead any more, and sends one last request.
    is_ending: bool,
}

/// A request, and when it arrives and is answered.
struct Flight {
    process: usize,
    write: Option<Box<Lease>>,
    arrives: u64,
    answered: u64,
    answer: Option<Answer>,
    is_request_lost: bool,
    is_answer_lost: bool,
}

struct World {
    now: u64,
    lease: Option<Lease>,
    version: u64,
    processes: usize,
    replicas: Vec<Replica>,
    flights: Vec<Flight>,
    random: fastrand::Rng,
    /// Whether some answers are lost.
    is_lossy: bool,
    /// When someone has restored an old release.
    release_restored: Option<u64>,
    /// How often another replica began to lead.
    terms: usize,
    last_leader: Option<usize>,
}

impl World {
    fn new(clocks: &[Clock], seed: u64) -> Self {
        let mut world = Self {
            now: 0,
            lease: None,
            version: 0,
            processes: 0,
            replicas: Vec::new(),
            flights: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            is_lossy: true,
            release_restored: None,
            terms: 0,
            last_leader: None,
        };
        for clock in clocks {
            world.processes += 1;
            world.replicas.push(Replica {
                candidate: Candidate::new(format!("p{}", world.processes)),
                clock: *clock,
                process: world.processes,
                paused_until: 0,
                cut_until: 0,
                slow: (0, 0),
                sent: None,
                is_ending: false,
            });
        }
        world
    }

    fn restart(&mut self, index: usize) {
        self.processes += 1;
        let replica = &mut self.replicas[index];
        replica.process = self.processes;
        replica.candidate = Candidate::new(format!("p{}", self.processes));
        // By then, every leader has noticed it.
        let starts = self.release_restored.map_or(0, |at| at + RELEASE_NOTICED);
        (replica.sent, replica.is_ending, replica.paused_until) = (None, false, starts);
    }

    fn happen(&mut self, fault: &Fault) {
        let (now, wall) = (self.now, self.wall());
        let replicas = self.replicas.len();
        match fault {
            Fault::Pause { replica, millis } => self.replicas[replica % replicas].paused_until = now + millis,
            Fault::Cut { replica, millis } => self.replicas[replica % replicas].cut_until = now + millis,
            Fault::Slow { replica, millis, delay } => self.replicas[replica % replicas].slow = (now + millis, *delay),
            Fault::Kill { replica } => self.restart(replica % replicas),
            Fault::End { replica } => {
                let index = replica % replicas;
                let replica = &mut self.replicas[index];
                if now < replica.paused_until {
                    return;
                }
                match replica.candidate.release(replica.clock.at(now), wall) {
                    Some(lease) => {
                        replica.is_ending = true;
                        self.send(index, Some(Box::new(lease)));
                    }
                    None => self.restart(index),
                }
            }
            Fault::Delete => self.lease = None,
            Fault::Edit { holder, seconds, transitions } => {
                let holder = match holder {
                    Holder::Nobody => None,
                    Holder::Named(name) => Some((*name).to_owned()),
                    Holder::Replica(replica) => Some(format!("p{}", self.replicas[replica % replicas].process)),
                };
                let is_release = *seconds == Some(1) && holder.as_ref().is_none_or(String::is_empty);
                // A replica that has just started believes a release. It does not see one while another may still lead.
                if is_release && !self.replicas.iter().all(|replica| replica.candidate.has_seen_a_holder()) {
                    return;
                }
                if is_release {
                    self.release_restored = Some(now);
                }
                if self.lease.is_some() {
                    let spec = LeaseSpec {
                        holder_identity: holder,
                        lease_duration_seconds: *seconds,
                        lease_transitions: *transitions,
                        ..LeaseSpec::default()
                    };
                    self.store(Lease { spec: Some(spec), ..Lease::default() });
                }
            }
        }
    }

    fn store(&mut self, mut lease: Lease) -> Lease {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        lease
    }

    fn send(&mut self, index: usize, write: Option<Box<Lease>>) {
        let replica = &mut self.replicas[index];
        replica.sent = Some(replica.clock.at(self.now));
        let is_cut = self.now < replica.cut_until;
        let slow = if self.now < replica.slow.0 { replica.slow.1 } else { 0 };
        let arrives = self.now + self.random.u64(1..60) + if slow > 0 { self.random.u64(0..=slow) } else { 0 };
        let answered = arrives + self.random.u64(1..60) + if slow > 0 { self.random.u64(0..=slow / 4) } else { 0 };
        self.flights.push(Flight {
            process: replica.process,
            write,
            arrives,
            answered,
            answer: None,
            // Of a connection that breaks, the request may have arrived or not.
            is_request_lost: is_cut && self.random.bool(),
            is_answer_lost: is_cut || self.is_lossy && self.random.u8(..) < 4,
        });
    }

    /// The API server handles a request.
    fn handle(&mut self, write: Option<&Lease>) -> Answer {
        let Some(write) = write else {
            return self.lease.clone().map_or(Answer::Absent, |lease| Answer::Lease(Box::new(lease)));
        };
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        match (version(write), &self.lease) {
            (None, None) => Answer::Lease(Box::new(self.store(write.clone()))),
            (Some(given), Some(stored)) if Some(&given) == version(stored).as_ref() => {
                Answer::Lease(Box::new(self.store(write.clone())))
            }
            (Some(_), None) => Answer::Absent,
            _ => Answer::Conflict,
        }
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millisecond(i64::try_from(self.now).unwrap()).unwrap()
    }

    fn step(&mut self) {
        let (now, wall) = (self.now, self.wall());
        let mut flights = std::mem::take(&mut self.flights);
        for flight in &mut flights {
            if flight.answer.is_none() && !flight.is_request_lost && flight.arrives <= now {
                flight.answer = Some(self.handle(flight.write.as_deref()));
            }
        }
        self.flights = flights;
        for index in 0..self.replicas.len() {
            let replica = &self.replicas[index];
            if now < replica.paused_until {
                continue;
            }
            let local = replica.clock.at(now);
            let Some(sent) = replica.sent else {
                let jitter = self.random.f64();
                match self.replicas[index].candidate.next(local, wall, jitter) {
                    Action::Wait(_) => {}
                    Action::Read => self.send(index, None),
                    Action::Write(lease) => self.send(index, Some(lease)),
                }
                continue;
            };
            let process = replica.process;
            let Some(flight) = self.flights.iter_mut().find(|flight| flight.process == process) else { continue };
            let is_write = flight.write.is_some();
            let answer = match &flight.answer {
                Some(answer) if flight.answered <= now && !flight.is_answer_lost => answer.clone(),
                _ if local.since(sent) >= PATIENCE => Answer::Failed,
                _ => continue,
            };
            // It may still arrive, but is not answered.
            flight.process = 0;
            if self.replicas[index].is_ending {
                self.restart(index);
                continue;
            }
            let jitter = self.random.f64();
            let replica = &mut self.replicas[index];
            replica.sent = None;
            if is_write {
                replica.candidate.on_written(answer, sent, local, jitter);
            } else {
                replica.candidate.on_read(answer, local);
            }
        }
        // Those of a stopped process wait for it.
        self.flights.retain(|flight| flight.process != 0 || flight.arrives >= now);
        let leaders = self.leaders();
        if let [leader] = leaders[..]
            && self.last_leader.replace(leader) != Some(leader)
        {
            self.terms += 1;
        }
        self.now += STEP;
    }

    /// The processes that lead by their own clocks, also those that are stopped at present.
    fn leaders(&self) -> Vec<usize> {
        let leads = |replica: &&Replica| {
            !replica.is_ending && replica.candidate.held_until(replica.clock.at(self.now)).is_some()
        };
        self.replicas.iter().filter(leads).map(|replica| replica.process).collect()
    }
}

fn clock() -> impl Strategy<Value = Clock> {
    (0..10_000_000_u64, 900..=1100_u64).prop_map(|(ahead, rate)| Clock { ahead, rate })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn one_replica_leads_at_a_time_whatever_fails(
        clocks in prop::collection::vec(clock(), 2..=3),
        mut faults in prop::collection::vec((0..FAULTS, fault()), 0..24),
        seed in any::<u64>(),
    ) {
        faults.sort_by_key(|(at, _)| *at);
        let mut world = World::new(&clocks, seed);
        let mut next = faults.iter().peekable();
        let end = FAULTS + 40_000 + QUIET;
        while world.now < end {
            while let Some((_, fault)) = next.next_if(|(at, _)| *at <= world.now) {
                world.happen(fault);
            }
            // A lost answer is a fault as well: three in a row end a term.
            world.is_lossy = world.now < FAULTS + 40_000;
            world.step();
            let leaders = world.leaders();
            prop_assert!(leaders.len() <= 1, "{leaders:?} lead at {} ms", world.now);
        }
        prop_assert_eq!(world.leaders().len(), 1, "a replica leads after the faults");
    }
}

#[test]
fn another_replica_leads_soon_after_a_kill_or_an_end() {
    let clocks = [Clock { ahead: 0, rate: 1000 }, Clock { ahead: 7_000_000, rate: 1000 }];
    for (fault, limit) in [(Fault::Kill { replica: 0 }, 16_000), (Fault::End { replica: 0 }, 1_000)] {
        for seed in 0..50 {
            let mut world = World { is_lossy: false, ..World::new(&clocks, seed) };
            while world.leaders().is_empty() {
                world.step();
            }
            let leader = world.leaders()[0];
            let index = world.replicas.iter().position(|replica| replica.process == leader).unwrap();
            let moment = world.now + seed * 140;
            // Not in the middle of a renewal, after which the release would have to be repeated.
            while world.now < moment || world.replicas[index].sent.is_some() {
                world.step();
            }
            let (begun, terms) = (world.now, world.terms);
            world.happen(&match fault {
                Fault::Kill { .. } => Fault::Kill { replica: index },
                _ => Fault::End { replica: index },
            });
            while world.terms == terms {
                world.step();
                assert!(world.now - begun <= limit, "{fault:?}, seed {seed}");
            }
        }
    }
}
