//! Hostile answers: too long, too many, too deep, or no answers of an API server.

use pilotage_testkit::fault::Verb;

use crate::watches::WATCHES;

crate::siege::attacks! {
    a_list_without_end,
    pages_without_end,
    empty_pages_without_end,
    an_object_of_five_mebibytes,
    a_short_list_that_takes_much_memory,
    a_word_of_health_without_end,
    a_failure_without_end,
    a_failure_whose_text_is_nobodys_business,
    brackets_in_brackets,
    no_utf8,
    html,
    an_encoding_that_nobody_asked_for,
    objects_of_another_kind,
    a_list_that_is_none,
    a_list_without_a_version,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_managers_of_fields() {
    crate::siege::borne(
        "a_million_managers_of_fields",
        Verb::List,
        "podchaperons",
        WATCHES,
    )
    .await;
}
