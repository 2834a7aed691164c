//! The switches that break a promise on purpose, and the tests that must notice.
//!
//! `cargo x sabotage` turns on one after another. A switch under which its tests stay green shows a promise without a guard.

/// One way to break a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// What [`change::sabotage::is_on`] is asked for, at the place where the promise is kept.
    pub name: &'static str,
    /// The promise, by its name in the design.
    pub promise: &'static str,
    /// Part of the names of the tests that must fail.
    pub tests: &'static str,
}

const fn switch(name: &'static str, promise: &'static str, tests: &'static str) -> Switch {
    Switch { name, promise, tests }
}

const SIMULATION: &str = "after_any_crashes_the_target_equals_the_source";

const MUTATION: &str = "no_input_makes_a_decoder_panic_or_hold_more_than_its_length_allows";

const OPEN: &str = "open_transactions_come_through_any_crash";

/// All switches.
pub const SWITCHES: &[Switch] = &[
    switch("release-before-sync", "no loss", SIMULATION),
    switch("checkpoint-before-sync", "no loss", SIMULATION),
    switch("believe-started-sync", "no loss", SIMULATION),
    switch("publish-before-sync", "no loss", SIMULATION),
    switch("believe-failed-sync", "no loss", SIMULATION),
    switch("checkpoint-before-rows", "no loss", SIMULATION),
    switch("checkpoint-without-sync", "no loss", SIMULATION),
    switch("checkpoint-in-one-slot", "crash anywhere", SIMULATION),
    switch("checkpoint-after-rows", "no repeat", SIMULATION),
    switch("checkpoint-in-another-transaction", "no repeat", SIMULATION),
    switch("skip-restart-filter", "no repeat", SIMULATION),
    switch("skip-duplicate-filter", "no repeat", "transactions_that_the_trail_holds_twice_are_applied_once"),
    switch("forget-deleted-rows", "converges", "an_update_wins_over_a_delete_that_did_not_know_it_at_both_sites"),
    switch("truncate-unseen-rows", "nothing silent", "a_truncation_under_rules_for_conflicts_is_refused_or_settled"),
    switch("judge-rows-early", "commit order", "several_sessions_come_to_the_end_of_one_under_any_rules_and_deaths"),
    switch("trust-changed-rules", "no repeat", "other_rules_are_refused_only_where_the_watermarks_differ"),
    switch("split-transactions", "no half transaction", SIMULATION),
    switch("ignore-restart-marker", "no half transaction", SIMULATION),
    switch("skip-tail-repair", "no half transaction", SIMULATION),
    switch("accept-torn-record", "no half transaction", "a_flipped_bit_anywhere_never_makes_a_wrong_row"),
    switch("pass-over-cut-change", "no half transaction", "a_file_that_ends_inside_a_change_needs_a_marker_behind_it"),
    switch(
        "overwrite-under-readers",
        "crash anywhere",
        "a_crash_at_any_step_of_overwriting_loses_nothing_before_the_checkpoint",
    ),
    switch("answer-before-sync", "no loss", "each_transaction_arrives_once_over_a_line_that_ends_and_repeats_itself"),
    switch(
        "standing-before-answer",
        "no loss",
        "each_transaction_arrives_once_over_a_line_that_ends_and_repeats_itself",
    ),
    switch("take-batches-again", "no repeat", "each_transaction_arrives_once_over_a_line_that_ends_and_repeats_itself"),
    switch(
        "believe-strangers",
        "nothing silent",
        "peers_believe_each_other_by_fingerprint_and_a_trail_is_a_peers_whatever_he_says",
    ),
    switch("reorder-changes", "order", SIMULATION),
    switch("forget-completed-transactions", "no repeat", "after_any_crashes_a_target_with_several_appliers"),
    switch("coordinate-nothing", "order", "after_any_crashes_a_coordinated_target_equals_the_source"),
    switch("forget-pieces", "no repeat", "after_any_crashes_a_target_of_split_transactions_equals_the_source"),
    switch("drop-one-dependency-edge", "order", "any_schedule_ends_as_the_trail_does"),
    switch("judge-errors-early", "order", "any_schedule_ends_as_the_trail_does"),
    switch("keep-aborted-part", "no half transaction", OPEN),
    switch("hand-out-again", "no repeat", OPEN),
    switch("repeat-persisted-changes", "no repeat", OPEN),
    switch("forget-persisted-transaction", "no loss", OPEN),
    switch(
        "keep-all-in-memory",
        "bounded",
        "a_transaction_far_larger_than_memory_costs_little_more_disk_than_its_bytes",
    ),
    switch("keep-own-transactions", "no repeat", "applied_transactions_are_not_captured"),
    switch("capture-what-was-applied", "no repeat", "applied_transactions_are_not_captured"),
    switch("share-a-group", "no repeat", "a_new_session_reads_its_row_when_the_backend_of_the_old_one_is_gone"),
    switch("start-behind-what-was-confirmed", "no loss", "below_a_released_position_nothing_can_be_read"),
    switch("believe-restored-log", "no loss", "a_server_that_was_restored"),
    switch("forget-copies", "no repeat", "changes_that_the_initial_copy_holds_are_left_out"),
    switch("copy-part-of-a-table", "no loss", "a_stopped_copy_commits_no_part_of_a_table"),
    switch("skip-source-sync", "no loss", "what_could_not_be_synced_is_not_told"),
    switch("skip-history-check", "no loss", "a_copy_that_went_another_way_is_a_mismatch"),
    switch("skip-healing", "no loss", "a_rebuild_in_twelve_steps_heals"),
    switch("forget-replaced-rows", "no loss", "one_row_replaces_two_by_key_and_by_a_second_unique_index"),
    switch("trust-the-target", "no loss", "a_target_that_was_put_back_is_noticed"),
    switch("keep-identity", "nothing silent", "a_truncation_restarts_sequences_where_it_was_told_to"),
    switch("join-late", "no loss", "a_new_table_joins_inside_the_transaction_that_makes_it"),
    switch("swallow-rejections", "nothing silent", "a_row_that_the_target_does_not_take_stops_the_group"),
    switch(
        "park-without-position",
        "no repeat",
        "a_transaction_is_parked_in_the_target_transaction_that_moves_the_position",
    ),
    switch("pass-parked-transactions", "order", "transactions_that_depend_on_a_parked_one_are_held_back_behind_it"),
    switch("overtake-parked-transactions", "order", "one_that_depends_on_a_refused_one_is_left"),
    switch(
        "mend-what-is-on-its-way",
        "converges",
        "rows_that_compare_mends_are_not_captured_and_rows_on_their_way_are_left_alone",
    ),
    switch("lose-discards", "nothing silent", "discard_keeps_the_row_in_the_discard_file_and_goes_on"),
    switch("overlook-conflicts", "converges", "every_cell_of_the_conflict_matrix"),
    switch("trust-declared-lengths", "bounded", MUTATION),
    switch("reserve-what-is-declared", "bounded", "a_declared_length_takes_no_memory_that_the_file_could_not_fill"),
    switch(
        "ignore-the-place",
        "no half transaction",
        "a_record_that_somebody_changed_is_refused_even_when_its_checksum_fits",
    ),
    switch("write-in-clear", "nothing silent", "what_is_read_is_what_was_written_and_no_value_stands_in_clear"),
    switch("purge-unread-files", "no loss", "the_rules_of_purgeoldextracts"),
    switch("purge-without-order", "crash anywhere", "a_purge_that_ends_anywhere_leaves_a_trail_without_holes"),
    switch("circulate-heartbeats", "bounded", "heartbeats_travel_as_their_scripts_say"),
    switch(
        "rectify-what-has-changed",
        "converges",
        "rows_that_have_changed_since_are_left_alone_and_refused_ones_are_told",
    ),
    switch("pass-heartbeats-unsigned", "nothing silent", "a_pump_signs_heartbeats"),
    switch("write-left-out", "nothing silent", "a_skipped_transaction_is_left_out_whole_whatever_is_killed"),
    switch(
        "pass-missing-prepared",
        "nothing silent",
        "what_was_prepared_before_two_phase_comes_and_what_is_kept_nowhere_stops_the_extract",
    ),
    switch("repeat-forced", "no repeat", "a_forced_part_at_the_end_of_the_trail_is_not_written_again"),
    switch("forget-left-out", "nothing silent", "a_skipped_transaction_is_left_out_whole_whatever_is_killed"),
    switch("forget-prepared", "no loss", "nothing_behind_a_preparation_is_confirmed_before_its_rows_are_durable"),
    switch("undo-half-images", "nothing silent", "what_can_be_reversed_is_and_what_can_not_is_refused_whole"),
    switch("pass-missing-files", "nothing silent", "a_whole_trail_is_whole_and_missing_files_and_damage_are_told"),
    switch("uncounted-filter", "nothing silent", SIMULATION),
    switch("buffer-without-limit", "bounded", SIMULATION),
    switch("ddl-without-barrier", "order", "a_statement_waits_for_all_that_came_before_it"),
    switch("repeat-noted-statement", "crash anywhere", "an_index_that_was_being_made_when_the_group_died"),
];
