use super::common::SHARES;
use super::*;

const MIB: usize = 1 << 20;

fn heavy(weight: usize) -> Amount {
    Amount::new(0, weight)
}

fn nothing() -> Amount {
    Amount::default()
}

#[test]
fn ten_thousand_pods_fit_and_an_invented_crowd_does_not() {
    let budget = Budget::default();
    assert_eq!(budget.check(Amount::new(OBJECTS, BASE)), Ok(()));
    let excess = budget.check(Amount::new(OBJECTS + 1, 0));
    assert_eq!(excess, Err(Excess::Objects));
    let excess = budget.check(Amount::new(10_000, 10_000 * (16 << 10)));
    assert_eq!(
        excess,
        Err(Excess::Weight {
            limit: BASE,
            pods: 0
        })
    );
    assert_eq!(
        excess.unwrap_err().to_string(),
        "what it shows would take more than 16 MiB of memory, for 0 pods that may run there"
    );
    let pods = Arc::new(AtomicUsize::new(10_000));
    let counted = pods.clone();
    budget.expect(move || counted.load(Ordering::Relaxed));
    let chaperons = Amount::new(10_000, 10_000 * (USUAL + CROWDED));
    assert_eq!(budget.check(chaperons), Ok(()));
    // When the pods have gone their chaperons are still to go.
    pods.store(0, Ordering::Relaxed);
    assert_eq!(budget.check(chaperons), Ok(()));
}

/// Chaperons that are as heavy as they may be, until there is no room: how many, and what they weigh.
fn fill(budget: &Budget) -> Amount {
    let mut filled = nothing();
    loop {
        let one = Amount::new(1, budget.share());
        if budget.check(one).is_err() {
            return filled;
        }
        budget.change(nothing(), one);
        filled = filled.and(one);
    }
}

#[test]
fn whatever_authors_make_of_their_pods_all_chaperons_fit_and_many_pods_bring_no_gigabytes() {
    for pods in [0, 1, 10, 64, 65, 100, 1000, 10_000] {
        let budget = Budget::default();
        budget.expect(move || pods);
        let filled = fill(&budget);
        assert!(filled.objects >= pods, "{pods}: {filled:?}");
        let most = BASE + HEAVY + A_POD + pods * (USUAL + CROWDED);
        assert!(filled.weight <= most, "{pods}: {filled:?}");
        // Who is heavier than usual is so at nobody's cost.
        let usual = Amount::new(pods, pods * USUAL);
        let roomy = Budget::default();
        roomy.expect(move || pods);
        roomy.change(nothing(), usual);
        assert_eq!(roomy.share(), A_POD, "{pods}");
    }
}

#[test]
fn many_targets_of_a_namespace_bring_hardly_more_than_one() {
    const PODS: usize = 600;
    let mut commons = Commons::default();
    let budgets = shared(&mut commons, "evil", 20);
    let all = budgets.iter().map(|budget| {
        budget.expect(|| PODS);
        fill(budget).weight
    });
    let sum: usize = all.sum();
    assert!(sum <= COMMON_BASE + HEAVY + A_POD + PODS * (16 * USUAL + CROWDED));
    assert!(sum < 400 * MIB, "{sum}");
}

#[test]
fn what_goes_makes_room() {
    let budget = Budget::default();
    let all = Amount::new(OBJECTS, BASE);
    budget.change(nothing(), all);
    assert!(budget.check(Amount::new(1, 0)).is_err() && budget.check(heavy(1)).is_err());
    budget.change(all, all.without(Amount::new(1, 10)));
    assert_eq!(budget.check(Amount::new(1, 10)), Ok(()));
}

/// The budgets of so many Targets of one namespace.
fn shared(commons: &mut Commons, namespace: &str, count: usize) -> Vec<Arc<Budget>> {
    let budgets = (0..count).map(|_| Arc::new(Budget::of(Some(commons.of(namespace)))));
    budgets.collect()
}

#[test]
fn a_namespace_takes_as_much_as_eight_targets_however_many_it_has() {
    let mut commons = Commons::default();
    let budgets = shared(&mut commons, "evil", 100);
    let (full, others) = budgets.split_at(SHARES);
    for budget in full {
        assert_eq!(budget.check(heavy(BASE)), Ok(()));
        budget.change(nothing(), heavy(BASE));
    }
    for budget in others {
        let excess = budget.check(heavy(1)).unwrap_err();
        assert_eq!(
            excess.to_string(),
            "what all Targets of namespace evil show together would take more than 128 MiB of memory, for 0 pods that \
             may run there"
        );
        // Who adds nothing stays.
        assert_eq!(budget.check(nothing()), Ok(()));
    }
    // Others don't notice, nor do ClusterTargets.
    let honest = shared(&mut commons, "honest", 1).remove(0);
    assert_eq!(honest.check(heavy(BASE)), Ok(()));
    assert_eq!(Budget::of(None).check(heavy(BASE)), Ok(()));
    full[0].change(heavy(BASE), nothing());
    assert_eq!(others[0].check(heavy(BASE)), Ok(()));
}

#[test]
fn each_pod_may_have_a_usual_chaperon_in_sixteen_targets_at_a_time() {
    const PODS: usize = 3_000;
    let mut commons = Commons::default();
    let usual = Amount::new(PODS, PODS * USUAL);
    for budget in &shared(&mut commons, "honest", 16) {
        budget.expect(|| PODS);
        assert_eq!(budget.check(usual), Ok(()));
        budget.change(nothing(), usual);
    }
}

#[test]
fn the_number_of_objects_is_bounded_as_well() {
    let mut commons = Commons::default();
    for (number, budget) in shared(&mut commons, "evil", 9).iter().enumerate() {
        let checked = budget.check(Amount::new(OBJECTS, 0));
        let limit = 400_000;
        let namespace = "evil".to_owned();
        let excess = Excess::CommonObjects { namespace, limit };
        let want = if number < 8 { Ok(()) } else { Err(excess) };
        assert_eq!(checked, want);
        budget.change(nothing(), Amount::new(OBJECTS, 0));
    }
}

#[test]
fn lists_that_are_read_at_the_same_time_share_the_room() {
    let mut commons = Commons::default();
    let budgets = shared(&mut commons, "evil", 20);
    let mut rooms: Vec<_> = budgets
        .iter()
        .map(|budget| Room::new(Some(budget.clone())))
        .collect();
    // Page after page, each with a MiB, from all of them.
    let mut refused = 0;
    for page in 1..=16 {
        let amount = heavy(page * MIB);
        let fails = rooms
            .iter_mut()
            .map(|room| room.raise(amount))
            .filter(Result::is_err);
        refused += fails.count();
    }
    let taken: usize = rooms.iter().map(|room| room.taken.weight).sum();
    assert_eq!(taken, SHARES * BASE);
    assert!(refused > 0);
    // One that is given up makes room, and one that is read through keeps its own.
    let (last, first) = (rooms.pop().unwrap(), rooms.remove(0));
    let kept = first.hand_over();
    let free = last.taken;
    assert!(budgets[19].check(heavy(1)).is_err());
    drop(last);
    assert_eq!(budgets[19].check(free), Ok(()));
    assert!(budgets[19].check(free.and(heavy(1))).is_err());
    budgets[0].change(kept, nothing());
    drop(rooms);
    assert_eq!(budgets[0].check(heavy(BASE)), Ok(()));
    assert_eq!(
        budgets[0].common.as_ref().unwrap().kept.with(nothing()),
        nothing()
    );
}

#[test]
fn two_lists_of_one_target_dont_take_its_room_twice() {
    let budget = Arc::new(Budget::default());
    let (mut one, mut two) = (
        Room::new(Some(budget.clone())),
        Room::new(Some(budget.clone())),
    );
    assert_eq!(one.raise(heavy(9 * MIB)), Ok(()));
    // Less than before is no news.
    assert_eq!(one.raise(heavy(MIB)), Ok(()));
    assert!(two.raise(heavy(8 * MIB)).is_err());
    assert_eq!(two.raise(heavy(7 * MIB)), Ok(()));
    drop(one);
    assert_eq!(two.raise(heavy(BASE)), Ok(()));
}

#[test]
fn answers_under_way_are_counted_until_they_are_complete() {
    let mut commons = Commons::default();
    let budgets = shared(&mut commons, "evil", 2);
    let answer = || UnderWay::new(budgets[0].clone());
    let mut answers: Vec<_> = (0..SHARES).map(|_| answer()).collect();
    for answer in &mut answers {
        assert_eq!(answer.add(BASE), Ok(()));
    }
    let mut late = UnderWay::new(budgets[1].clone());
    let excess = late.add(1).unwrap_err();
    assert_eq!(
        excess.to_string(),
        "answers of all Targets of namespace evil that are on their way would take more than 128 MiB of memory"
    );
    // What may be kept is another affair: who is full must still be able to let go.
    assert_eq!(budgets[1].check(heavy(BASE)), Ok(()));
    answers[0].clear();
    assert_eq!(late.add(BASE), Ok(()));
    assert!(answers[0].add(1).is_err());
    drop(late);
    assert_eq!(answers[0].add(BASE), Ok(()));
    // More pods send more.
    budgets[1].expect(|| 1);
    assert_eq!(
        UnderWay::new(budgets[1].clone()).add(A_POD * SHARES),
        Ok(())
    );
    // Nobody counts a ClusterTarget's.
    let mut one = UnderWay::new(Arc::default());
    assert_eq!(one.add(usize::MAX), Ok(()));
    assert_eq!(one.add(usize::MAX), Ok(()));
}

#[test]
fn a_common_bound_lasts_as_long_as_anything_that_counts_for_it() {
    let mut commons = Commons::default();
    let first = shared(&mut commons, "shop", 1).remove(0);
    first.change(nothing(), heavy(BASE));
    // Made anew while a reader still holds what the old one showed.
    let second = shared(&mut commons, "shop", 1).remove(0);
    let sum = |budget: &Budget| budget.common.as_ref().unwrap().kept.with(nothing());
    assert_eq!(sum(&second), heavy(BASE));
    drop((first, second));
    let third = shared(&mut commons, "shop", 1).remove(0);
    assert_eq!(sum(&third), nothing());
}

#[test]
fn a_question_for_a_name_counts_for_its_namespace_until_it_has_an_answer() {
    let mut commons = Commons::default();
    let [one, two] = [(); 2].map(|()| Budget::of(Some(commons.of("shop"))));
    let other = Budget::of(Some(commons.of("bank")));
    assert!(Arc::ptr_eq(one.names(), two.names()) && !Arc::ptr_eq(one.names(), other.names()));
    // Who asks holds it, and its thread may outlive all Targets.
    let asking = one.names().clone();
    drop((one, two));
    commons.of("bank");
    assert!(Arc::ptr_eq(
        Budget::of(Some(commons.of("shop"))).names(),
        &asking
    ));
    let operator = [(); 2].map(|()| Budget::of(None));
    assert!(!Arc::ptr_eq(operator[0].names(), operator[1].names()));
}
