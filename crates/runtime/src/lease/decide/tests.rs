use super::*;

const TIMES: Times = Times {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

fn s(seconds: u64) -> Moment {
    Duration::from_secs(seconds)
}

fn election() -> Election {
    Election::new("me".to_owned(), TIMES)
}

fn record(version: &str, holder: &str) -> Record {
    Record {
        version: version.to_owned(),
        holder: (!holder.is_empty()).then(|| holder.to_owned()),
        duration: Some(s(15)),
        transitions: 3,
    }
}

fn present(version: &str, holder: &str) -> Seen {
    Seen::Present(record(version, holder))
}

fn take(version: &str, transitions: i32, fresh: bool) -> Step {
    Step::Take {
        version: version.to_owned(),
        transitions,
        fresh,
    }
}

fn lost(to: Option<&str>) -> Step {
    Step::Lost {
        to: to.map(str::to_owned),
    }
}

fn leader(sent: u64) -> Election {
    let mut election = election();
    election.wrote(record("1", "me"), s(sent));
    election
}

#[test]
fn a_newcomer_looks_then_does_what_the_lease_allows() {
    assert_eq!(election().decide(s(0)), Step::Look);
    for (seen, want) in [
        (Seen::Absent, Step::Create),
        (present("7", ""), take("7", 4, true)),
        // A write of ours landed although its answer was lost.
        (present("7", "me"), take("7", 3, true)),
        (present("7", "other"), Step::Wait(s(102))),
    ] {
        let mut election = election();
        election.looked(seen.clone(), s(100), 0.0);
        assert_eq!(election.decide(s(100)), want, "{seen:?}");
    }
}

#[test]
fn a_standby_waits_a_lease_duration_after_the_last_change_it_saw() {
    let mut election = election();
    election.looked(present("7", "other"), s(100), 1.0);
    assert_eq!(
        election.decide(s(100)),
        Step::Wait(s(100) + Duration::from_millis(2400))
    );
    assert_eq!(election.decide(s(103)), Step::Look);
    // Renewed: the wait begins anew.
    election.looked(present("8", "other"), s(103), 0.0);
    assert_eq!(election.foreign(), Some(("other", s(118))));
    // Unchanged looks don't.
    election.looked(present("8", "other"), s(116), 0.0);
    assert_eq!(election.foreign(), Some(("other", s(118))));
    assert_eq!(election.decide(s(118)), take("8", 4, true));
}

#[test]
fn the_holder_s_own_duration_counts_for_standbys() {
    let mut election = election();
    let slow = Record {
        duration: Some(s(60)),
        ..record("7", "other")
    };
    election.looked(Seen::Present(slow), s(0), 0.0);
    assert_eq!(election.decide(s(30)), Step::Look);
    assert_eq!(election.decide(s(60)), take("7", 4, true));
}

#[test]
fn a_deleted_lease_does_not_void_a_claim_seen_before() {
    let mut election = election();
    election.looked(present("7", "other"), s(0), 0.0);
    election.looked(Seen::Absent, s(5), 0.0);
    assert_eq!(election.decide(s(5)), Step::Wait(s(7)));
    assert_eq!(election.decide(s(7)), Step::Look);
    assert_eq!(election.decide(s(15)), Step::Create);
}

#[test]
fn a_given_back_lease_is_taken_at_once() {
    let mut election = election();
    election.looked(present("7", "other"), s(0), 0.0);
    election.looked(present("8", ""), s(2), 0.0);
    assert_eq!(election.decide(s(2)), take("8", 4, true));
}

#[test]
fn losing_the_race_means_looking_again() {
    let mut election = election();
    election.looked(present("7", ""), s(0), 0.0);
    election.write_failed(true, s(1));
    assert_eq!(election.decide(s(1)), Step::Look);
    election.looked(present("8", "other"), s(1), 0.0);
    assert_eq!(election.decide(s(1)), Step::Wait(s(3)));
    assert_eq!(election.own_expiry(), None);
}

#[test]
fn a_leader_renews_every_retry_period() {
    let mut election = leader(100);
    assert_eq!(election.own_expiry(), Some(s(110)));
    assert_eq!(election.decide(s(101)), Step::Wait(s(102)));
    assert_eq!(election.decide(s(102)), take("1", 3, false));
    election.wrote(record("2", "me"), s(102));
    assert_eq!(election.own_expiry(), Some(s(112)));
}

#[test]
fn a_leader_that_cannot_renew_gives_up_at_the_deadline() {
    let mut election = leader(100);
    for now in [102, 104, 106, 108] {
        election.write_failed(false, s(now));
        election.look_failed(s(now));
        assert_eq!(election.decide(s(now)), Step::Wait(s(now + 2)));
    }
    assert_eq!(election.decide(s(110)), lost(None));
    // Whatever is seen later, this process is done.
    election.looked(present("2", "me"), s(111), 0.0);
    assert_eq!(election.decide(s(111)), lost(None));
}

#[test]
fn expiry_counts_from_the_sending_of_the_write_not_from_its_answer() {
    let mut election = leader(100);
    election.wrote(record("2", "me"), s(103));
    assert_eq!(election.own_expiry(), Some(s(113)));
}

#[test]
fn a_leader_whose_write_conflicts_looks_and_judges() {
    for (seen, want) in [
        // Somebody added an annotation.
        (present("9", "me"), take("9", 3, false)),
        (present("9", "other"), lost(Some("other"))),
        (present("9", ""), lost(None)),
        // Somebody deleted it.
        (Seen::Absent, Step::Create),
    ] {
        let mut election = leader(100);
        election.write_failed(true, s(102));
        assert_eq!(election.decide(s(102)), Step::Look);
        election.looked(seen.clone(), s(102), 0.0);
        assert_eq!(election.decide(s(102)), want, "{seen:?}");
    }
}

#[test]
fn only_a_lease_that_is_ours_is_given_back() {
    assert_eq!(election().vacate(s(0)), None);
    assert_eq!(leader(100).vacate(s(101)), Some(&record("1", "me")));
    assert_eq!(leader(100).vacate(s(110)), None);
    let mut uncertain = leader(100);
    uncertain.write_failed(false, s(102));
    assert_eq!(uncertain.vacate(s(102)), None);
}

/// Two processes against one Lease under every mix of lost requests, lost answers and late looks:
/// at no moment do both hold it, and each write is guarded by a version.
#[test]
fn two_processes_never_lead_at_once() {
    struct Server {
        version: u64,
        record: Option<Record>,
    }
    for seed in 0..2000_u64 {
        let mut bits = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut roll = |sides: u64| {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            bits % sides
        };
        let mut server = Server {
            version: 0,
            record: None,
        };
        let mut processes = [
            Election::new("a".to_owned(), TIMES),
            Election::new("b".to_owned(), TIMES),
        ];
        let mut dead = [false; 2];
        let mut changes = 0;
        let mut last_holder = None;
        for tick in 0..400_u64 {
            let now = Duration::from_millis(tick * 500);
            // For a fifth of the time the process of this half minute is cut off.
            let cut = (seed + tick / 60) % 5;
            for (index, process) in processes.iter_mut().enumerate() {
                if dead[index] {
                    continue;
                }
                let lost_request = cut == index as u64 || roll(10) == 0;
                let lost_answer = roll(10) == 0;
                match process.decide(now) {
                    Step::Wait(_) => {}
                    Step::Lost { .. } => dead[index] = true,
                    Step::Look if lost_request => process.look_failed(now),
                    Step::Look => {
                        let seen = server.record.clone().map_or(Seen::Absent, Seen::Present);
                        process.looked(seen, now, 0.5);
                    }
                    step @ (Step::Create | Step::Take { .. }) => {
                        let expected = match &step {
                            Step::Take { version, .. } => Some(version.clone()),
                            _ => None,
                        };
                        let current = server.record.as_ref().map(|record| record.version.clone());
                        if lost_request {
                            process.write_failed(false, now);
                        } else if expected == current {
                            server.version += 1;
                            let record = record(&server.version.to_string(), &process.me);
                            server.record = Some(record.clone());
                            if lost_answer {
                                process.write_failed(false, now);
                            } else {
                                process.wrote(record, now);
                            }
                        } else {
                            process.write_failed(true, now);
                        }
                    }
                }
            }
            let holders: Vec<&str> = processes
                .iter()
                .filter(|process| process.own_expiry().is_some_and(|expiry| now < expiry))
                .map(|process| process.me.as_str())
                .collect();
            assert!(holders.len() < 2, "seed {seed}, {now:?}: {holders:?}");
            if let [holder] = holders[..]
                && last_holder.as_deref() != Some(holder)
            {
                last_holder = Some(holder.to_owned());
                changes += 1;
            }
        }
        assert!(changes > 0, "seed {seed}: nobody ever led");
    }
}
