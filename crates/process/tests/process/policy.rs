//! Codes, delays and signals.

use process::{Action, Code, Failure, Level, Retry, Shutdown};
use std::time::Duration;

#[test]
fn codes_are_in_order_and_say_what_to_do() {
    assert!(Code::ALL.windows(2).all(|pair| pair[0].as_str() < pair[1].as_str()), "each number once, in order");
    for code in Code::ALL.iter().copied() {
        assert_eq!(Code::parse(code.as_str()), Some(code));
        assert!(!code.title().is_empty() && !code.title().contains("DRV"), "{code}");
        let step = code.next_step();
        assert!(code.level() == Level::Info || !step.is_empty(), "{code} has no next step");
        assert!(!step.ends_with('.'), "{code}");
    }
    assert_eq!(Code::parse("401"), Some(Code::TrailDamaged));
    assert_eq!(Code::parse("DRV-401"), Some(Code::TrailDamaged));
    assert_eq!(Code::parse("DRV-"), None);
    assert_eq!(Code::parse("99999"), None);
}

#[test]
fn a_passing_failure_is_tried_again_with_growing_delays_and_in_the_end_given_up() {
    let busy = Failure::new(Code::DatabaseBusy, "could not lock the database");
    let mut retry = Retry::new();
    let mut delays = Vec::new();
    while let Action::RetryAfter(delay) = retry.decide(&busy) {
        delays.push(delay);
        assert!(delays.len() < 1000, "it gives up");
    }
    let [first, second, .., last] = delays[..] else { panic!("several delays") };
    assert_eq!((first, second), (Duration::from_millis(100), Duration::from_millis(200)));
    assert_eq!(last, Duration::from_secs(15));
    assert!(delays.windows(2).all(|pair| pair[0] <= pair[1]));
    let total: Duration = delays.iter().sum();
    assert!((900..920).contains(&total.as_secs()), "about a quarter of an hour: {total:?}");
    assert_eq!(retry.decide(&busy), Action::Abend);
    retry.succeeded();
    assert_eq!(retry.decide(&busy), Action::RetryAfter(first), "a success starts anew");
}

#[test]
fn a_failure_that_lasts_is_not_tried_again() {
    let damaged = Failure::new(Code::TrailDamaged, "aa000000000 is damaged");
    assert_eq!(Retry::new().decide(&damaged), Action::Abend);
}

#[test]
fn a_signal_asks_for_an_orderly_stop() {
    let shutdown = Shutdown::install().expect("installs");
    assert!(!shutdown.is_requested());
    signal_hook::low_level::raise(signal_hook::consts::SIGTERM).expect("raises");
    assert!(shutdown.clone().is_requested());
    let from_within = Shutdown::default();
    from_within.request();
    assert!(from_within.is_requested());
}
