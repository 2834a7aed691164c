//! The list of cases, in one place: the library's table and the tests of each plug are both made from it.

/// Passes the list of cases to macro `$then` of this crate, after whatever stands in the parentheses.
///
/// Each case is the file it stands in, its name, and the capabilities that it needs.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_list {
    ($then:ident ($($first:tt)*)) => {
        $crate::$then! {
            ($($first)*)
            catalog identity_names_product_version_and_database []
            catalog tables_are_listed_with_columns_and_keys_in_name_order []
            catalog objects_of_our_own_are_not_listed []
            catalog a_session_finds_tables_by_the_case_rule []
            catalog registering_twice_is_refused_by_name []
            catalog a_group_that_was_unregistered_can_start_afresh []
            catalog unregistering_an_unknown_group_does_nothing []
            catalog users_go_on_after_a_group_is_unregistered []
            catalog opening_without_registration_is_refused []
            catalog a_required_table_that_is_missing_is_refused_by_name []
            catalog a_table_without_key_is_refused_by_name []
            catalog chosen_columns_stand_in_for_a_missing_key []
            catalog chosen_columns_replace_a_key []
            catalog a_chosen_column_that_is_missing_is_refused_by_name []
            catalog tables_that_are_not_selected_are_not_told []
            stream registration_divides_earlier_from_later_changes []
            stream changes_come_in_commit_order_each_exactly_once []
            stream changes_come_while_the_source_is_open []
            stream nothing_new_is_no_error []
            stream a_transaction_larger_than_a_batch_arrives_whole []
            stream every_position_is_a_place_to_go_on_from []
            stream reading_again_tells_the_same_names_and_addresses []
            stream a_source_that_dies_inside_a_transaction_tells_it_again_from_its_start []
            stream below_a_released_position_nothing_can_be_read []
            stream release_keeps_what_is_not_released []
            stream releasing_again_or_backwards_changes_nothing []
            stream each_group_releases_for_itself []
            stream a_group_that_registers_later_reads_later_changes []
            stream a_position_of_another_database_is_a_mismatch []
            stream a_position_that_is_no_position_is_a_mismatch []
            stream a_database_restored_from_a_backup_is_a_mismatch [Backup]
            stream a_crash_keeps_what_is_committed_and_where_reading_was [Crash]
            image null_and_empty_are_different []
            image every_byte_travels []
            image odd_text_travels []
            image whole_numbers_at_the_edges_travel []
            image long_values_travel []
            image a_long_value_that_does_not_change_is_told_or_left_out []
            image updates_and_deletes_tell_which_row []
            image old_rows_are_whole [WholeOldRow]
            image a_key_that_changes_tells_old_and_new []
            image a_key_of_several_columns_keeps_its_order []
            image a_row_may_be_nothing_but_its_key []
            image a_key_may_hold_null [NullInKey]
            image one_key_deleted_and_inserted_again_in_one_transaction []
            image unique_values_swapped_through_a_third_arrive_in_order []
            image a_truncation_empties_every_copy []
            image a_truncation_is_told_as_one [TruncateIsTold]
            image values_of_every_type_travel []
            apply inserts_updates_and_deletes_are_applied_in_order []
            apply several_calls_make_one_transaction []
            apply one_call_may_write_to_several_tables []
            apply columns_are_found_by_the_plan []
            apply unchanged_leaves_a_value_alone []
            apply a_key_is_enough_to_find_a_row []
            apply other_values_of_an_old_row_do_not_matter []
            apply a_table_without_key_is_written_by_the_plans_key []
            apply a_row_may_be_nothing_but_its_key_when_applied []
            apply a_key_that_holds_null_is_found [NullInKey]
            apply unique_values_are_swapped_through_a_third []
            apply a_missing_row_is_rejected_with_its_index []
            apply a_duplicate_is_rejected_with_its_index []
            apply null_may_repeat_in_a_unique_key []
            apply a_write_that_is_attempted_and_rejected_leaves_nothing_and_the_transaction_goes_on []
            apply the_row_that_stands_is_told_in_the_notation_of_the_change []
            apply a_null_that_is_not_allowed_is_rejected []
            apply rollback_leaves_nothing []
            apply a_session_that_goes_away_leaves_nothing []
            apply applied_transactions_are_not_captured []
            apply applied_transactions_are_not_captured_where_triggers_fire []
            apply captured_rows_apply_byte_for_byte []
            apply foreign_keys_can_be_left_to_the_source [ForeignKeys]
            apply foreign_keys_are_checked_at_commit_when_asked [ForeignKeys]
            checkpoint a_checkpoint_table_is_created_once_and_dropped []
            checkpoint a_checkpoint_table_does_not_take_a_users_name []
            checkpoint a_users_table_is_not_dropped_as_a_checkpoint_table []
            checkpoint a_checkpoint_row_is_inserted_once_and_deleted []
            checkpoint rows_of_several_homes_share_a_checkpoint_table []
            checkpoint a_saved_row_is_loaded_as_it_was []
            checkpoint rows_and_checkpoint_are_committed_together []
            checkpoint rollback_drops_rows_and_checkpoint []
            checkpoint saving_without_a_row_is_refused []
            checkpoint without_row_or_table_nothing_is_loaded []
            checkpoint a_checkpoint_table_may_have_any_name []
            together rows_and_checkpoint_are_handed_over_with_the_commit []
            together what_is_refused_of_a_whole_transaction_is_named_and_leaves_nothing []
            together a_whole_transaction_without_a_checkpoint_row_leaves_nothing []
            together the_last_part_of_a_transaction_is_handed_over_with_the_commit []
            together foreign_keys_of_a_whole_transaction_are_checked_at_commit_when_asked [ForeignKeys]
            checkpoint a_crash_drops_what_is_open_and_keeps_what_is_committed [Crash]
            applier a_group_and_its_appliers_are_loaded_as_they_were_saved []
            applier appliers_of_two_homes_are_apart []
            applier each_applier_saves_its_own_row_with_its_rows []
            applier rollback_drops_a_replaced_set []
            applier a_row_of_an_applier_that_is_gone_is_told []
            applier replacing_a_set_without_the_groups_row_is_refused []
            hostile hostile_table_and_column_names_work []
            hostile hostile_schema_names_work [Schemas]
            hostile names_that_differ_by_punctuation_are_different_tables []
        }
    };
}

/// Makes one `#[test]` per case for the subject that `$subject` evaluates to.
///
/// ```
/// # use database::conformance::{Capability, Instance, Subject};
/// # #[derive(Default)]
/// # struct Product;
/// # impl Subject for Product {
/// #     fn name(&self) -> String { "product".to_owned() }
/// #     fn lacks(&self) -> Vec<(Capability, &'static str)> { Vec::new() }
/// #     fn create(&self) -> Box<dyn Instance> { panic!("an example") }
/// # }
/// database::conformance_tests!(Product::default());
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ($subject:expr) => {
        $crate::conformance_list! { conformance_functions ($subject) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_functions {
    (($subject:expr) $($file:ident $name:ident [$($need:ident),*])*) => {
        $(
            #[test]
            fn $name() {
                $crate::conformance::run(&$subject, stringify!($name));
            }
        )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_table {
    (() $($file:ident $name:ident [$($need:ident),*])*) => {
        &[$(Case { name: stringify!($name), needs: &[$(Capability::$need),*], body: $file::$name }),*]
    };
}
