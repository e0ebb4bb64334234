//! The simulator and the checker that a user can turn on find the same: nothing in sound programs,
//! and each check that is left out, and each mistake, where it is made.

use allocator::Sabotage;
use random_programs::{
    Answer, BlockName, Broken, CaptureStep, GraphName, Join, Mended, Mistake, Operation, Program,
    Step, StreamName, Told, Verdict, Way, Wishes, run, shrink,
};

/// In so many seeds each sabotage must be found often enough.
const SEEDS_MAX: u64 = 2_000;
/// How often both must find each sabotage.
const FOUND_TIMES: u32 = 2;
const BYTES: u64 = 2 << 20;
const A: StreamName = StreamName(0);
const B: StreamName = StreamName(1);
const C: StreamName = StreamName(2);
const OLD: BlockName = BlockName(0);
const NEW: BlockName = BlockName(1);

#[test]
fn s2_both_find_each_sabotage_in_the_same_step() {
    let wishes = Wishes { checked: Some(true), mistakes: false, ..Wishes::default() };
    for sabotage in Sabotage::ALL {
        let (mut found, mut programs) = (0, 0);
        for seed in 0..SEEDS_MAX {
            let mut program = Program::draw_with(seed, &wishes);
            program.setup.broken = Some(Broken::Allocator(sabotage));
            let outcome = run(&program);
            programs += 1;
            let findings = &outcome.findings;
            assert_ne!(outcome.verdict, Some(Verdict::Differ), "seed {seed}: {findings:#?}");
            found += u32::from(outcome.verdict == Some(Verdict::BothFound));
            if found == FOUND_TIMES {
                break;
            }
        }
        println!("{sabotage:?}: found by both {found} times in {programs} programs");
        assert_eq!(found, FOUND_TIMES, "{sabotage:?} in {programs} programs");
    }
}

/// Where threads take turns, what the simulator finds in the whole of a run, the checker finds too.
#[test]
fn s2_both_find_a_sabotage_in_programs_of_several_threads() {
    let wishes = Wishes { checked: Some(true), threads: Some(2), ..Wishes::default() };
    for sabotage in [Sabotage::IgnoreUses, Sabotage::IgnoreFreePoint] {
        let found = (0..SEEDS_MAX).find(|seed| {
            let mut program = Program::draw_with(*seed, &wishes);
            program.setup.broken = Some(Broken::Allocator(sabotage));
            let outcome = run(&program);
            let findings = &outcome.findings;
            assert_ne!(outcome.verdict, Some(Verdict::Differ), "seed {seed}: {findings:#?}");
            outcome.verdict == Some(Verdict::BothFound)
        });
        println!("{sabotage:?} in two threads: found by both in seed {found:?}");
        assert!(found.is_some(), "{sabotage:?} was not found in two threads");
    }
}

/// A program in which a block of `A` was written there, and given back if the mistake is about the
/// next one, and then the mistake.
fn program_with(mistake: Mistake, mended: Mended) -> Program {
    let wishes = Wishes { operations: 0, checked: Some(true), ..Wishes::default() };
    let mut program = Program::draw_with(0, &wishes);
    let is_about_the_next = matches!(mistake, Mistake::BeforeAllocation { .. });
    let used = Operation::Use {
        block: OLD,
        stream: A,
        writes: true,
        told: Told::ByTheLaunch,
        join: Join::Stream,
    };
    let mut operations = vec![Operation::Create(A), Operation::Create(B), Operation::Create(C)];
    operations.extend([Operation::Allocate(OLD, A, BYTES, None), used]);
    if is_about_the_next {
        operations.push(Operation::Free(OLD, Way::Free, None));
    }
    operations.push(Operation::Mistake(mistake, mended));
    program.thread_count = 1;
    // One pool, and nothing that grows or waits instead of giving the block out again.
    program.setup.pool = None;
    program.setup.stream_bound = None;
    program.setup.pool_bound = None;
    let step = |operation| Step { thread: 0, operation };
    program.steps = operations.into_iter().map(step).collect();
    program
}

#[test]
fn both_find_each_mistake_and_neither_what_is_mended() {
    let mistakes = [
        Mistake::Untold { block: OLD, user: B },
        Mistake::AfterFree { block: OLD, user: B },
        Mistake::WrongEvent { block: OLD, early: B, late: C },
        Mistake::Unordered { block: OLD, early: B, late: C },
        Mistake::BeforeAllocation { block: NEW, bytes: BYTES, home: A, user: B },
    ];
    for mistake in mistakes {
        for (mended, expected) in [(Mended::No, Answer::Found), (Mended::Yes, Answer::Harmless)] {
            let outcome = run(&program_with(mistake, mended));
            assert!(outcome.findings.is_empty(), "{mistake:?}, {mended:?}: {:?}", outcome.findings);
            assert_eq!(outcome.mistakes, [(mistake.kind(), expected)], "{mended:?}");
        }
    }
}

/// A checker that is not told of the memory finds nothing where the simulator does: that is a
/// finding, and it shrinks.
#[test]
fn a_checker_that_misses_a_mistake_is_found_out() {
    let deaf = |seed| {
        let mut program = Program::draw(seed);
        program.setup.broken = Some(Broken::DeafChecker);
        program
    };
    let kind = "verdicts differ";
    let is_found = |program: &Program| run(program).findings.iter().any(|it| it.kind() == kind);
    let program = (0..SEEDS_MAX).map(deaf).find(is_found).expect("some program finds it");
    let (shortest, finding) = shrink(&program, kind).expect("it fails again");
    println!("{shortest}{finding}");
    assert!(shortest.steps.len() <= 6, "{} steps are left", shortest.steps.len());
}

/// Was: a use after the free of a block that a dropped graph still kept for its replay was called a
/// mistake, which it is not: the memory was nobody else's yet.
#[test]
fn memory_that_a_dropped_graph_may_keep_is_no_mistake() {
    let mut program = program_with(Mistake::AfterFree { block: OLD, user: B }, Mended::No);
    let mistake = program.steps.pop().expect("the mistake is the last step");
    let inside = vec![CaptureStep::Touch(OLD)];
    let graph = GraphName(0);
    let before = [
        Operation::Capture(graph, A, inside),
        Operation::Replay(graph, A, Join::Event),
        Operation::DropGraph(graph),
    ];
    let steps = before.map(|operation| Step { thread: 0, operation });
    program.steps.extend(steps.into_iter().chain([mistake]));
    let outcome = run(&program);
    assert!(outcome.findings.is_empty(), "{:?}", outcome.findings);
    assert_eq!(outcome.mistakes, [], "it is not made");
}
