//! The calls of tools in streams of events: `ToolCalls`.

use std::slice::from_ref;

use proptest::prelude::*;
use proptest::sample::Index;
use resile_llm::{Event, ToolCall, ToolCalls};
use serde_json::{Value, json};

/// The formats, each with parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Chat,
    /// All calls have the index 0.
    ChatOfZeros,
    /// Without an id.
    ChatWithoutIds,
    /// Each part has the id and the name.
    ChatThatRepeats,
    Responses,
    Anthropic,
}

const FORMATS: [Format; 6] = [
    Format::Chat,
    Format::ChatOfZeros,
    Format::ChatWithoutIds,
    Format::ChatThatRepeats,
    Format::Responses,
    Format::Anthropic,
];

/// Returns the events of a call whose arguments come in parts.
fn call(format: Format, at: usize, [id, name]: [&str; 2], parts: &[String]) -> Vec<Value> {
    let whole = parts.concat();
    match format {
        Format::Responses => {
            let item = |arguments: &str| json!({ "type": "function_call", "id": format!("fc-{at}"), "call_id": id, "name": name, "arguments": arguments });
            let mut events = vec![
                json!({ "type": "response.output_item.added", "output_index": at, "item": item("") }),
            ];
            events.extend(parts.iter().map(|part| json!({ "type": "response.function_call_arguments.delta", "output_index": at, "delta": part })));
            events.extend([
                json!({ "type": "response.function_call_arguments.done", "output_index": at, "arguments": whole }),
                json!({ "type": "response.output_item.done", "output_index": at, "item": item(&whole) }),
            ]);
            events
        }
        Format::Anthropic => {
            let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
            let mut events =
                vec![json!({ "type": "content_block_start", "index": at, "content_block": block })];
            events.extend(parts.iter().map(|part| {
                let delta = json!({ "type": "input_json_delta", "partial_json": part });
                json!({ "type": "content_block_delta", "index": at, "delta": delta })
            }));
            events.push(json!({ "type": "content_block_stop", "index": at }));
            events
        }
        _ => {
            let index = if format == Format::ChatOfZeros { 0 } else { at };
            let events = parts.iter().enumerate().map(|(place, part)| {
                let mut call = json!({ "index": index, "function": { "arguments": part } });
                if place == 0 || format == Format::ChatThatRepeats {
                    call["function"]["name"] = name.into();
                    if format != Format::ChatWithoutIds {
                        call["id"] = id.into();
                    }
                }
                json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] })
            });
            events.collect()
        }
    }
}

/// Returns the last events of a good answer.
fn end(format: Format) -> Vec<Value> {
    match format {
        Format::Responses => {
            vec![json!({ "type": "response.completed", "response": { "error": null } })]
        }
        Format::Anthropic => vec![
            json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
            json!({ "type": "message_stop" }),
        ],
        _ => vec![json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] })],
    }
}

fn collect(events: &[Value]) -> Vec<ToolCall> {
    let mut calls = ToolCalls::new();
    for event in events {
        calls.add(&Event::new("", event.to_string()));
    }
    calls.into_calls()
}

fn facts(calls: &[ToolCall]) -> Vec<[&str; 3]> {
    calls.iter().map(|it| [it.id(), it.name(), it.arguments()]).collect()
}

/// Splits a text at some of its characters.
fn split(text: &str, at: &[Index]) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut cuts: Vec<usize> = at.iter().map(|it| it.index(letters.len() + 1)).collect();
    cuts.extend([0, letters.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| letters[pair[0]..pair[1]].iter().collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The parts into which a provider splits the arguments make no difference, and no part of an answer has calls.
    #[test]
    fn any_split_of_the_arguments_gives_the_same_calls(
        texts in prop::collection::vec(("[ -~äß\u{1F600}]{0,12}", prop::collection::vec(any::<Index>(), 0..6)), 1..4),
    ) {
        let ids: Vec<[String; 2]> =
            (0..texts.len()).map(|at| [format!("id-{at}"), format!("tool-{}", at % 2)]).collect();
        let whole: Vec<String> =
            texts.iter().map(|(text, _)| json!({ "text": text, "in": {} }).to_string()).collect();
        for format in FORMATS {
            let mut events = Vec::new();
            for (at, (_, cuts)) in texts.iter().enumerate() {
                let [id, name] = &ids[at];
                events.extend(call(format, at, [id, name], &split(&whole[at], cuts)));
            }
            let parts = events.len();
            events.extend(end(format));
            let wanted: Vec<[&str; 3]> = (0..texts.len())
                .map(|at| {
                    let id = if format == Format::ChatWithoutIds { "" } else { &ids[at][0] };
                    [id, &ids[at][1], &whole[at]]
                })
                .collect();
            let found = collect(&events);
            prop_assert_eq!(facts(&found), wanted, "{:?}", format);
            for broken in 0..=parts {
                prop_assert_eq!(collect(&events[..broken]), [], "{:?} of {}", format, broken);
            }
        }
    }

    /// Whatever comes, the collector does not panic.
    #[test]
    fn no_event_breaks_the_collector(names in prop::collection::vec(0_usize..20, 0..12)) {
        const PIECES: [&str; 20] = [
            "", "[DONE]", "{", "[]", "null", r#"{"choices":null}"#, r#"{"choices":[null,{"delta":null}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[null,{},{"index":-1,"function":null}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":18446744073709551615,"id":"a","function":{"name":"f"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":{"index":0}},"finish_reason":"stop"}]}"#,
            r#"{"candidates":[]}"#, r#"{"candidates":[{"content":{"parts":[null,{"functionCall":null}]}}]}"#,
            r#"{"type":"content_block_start"}"#, r#"{"type":"content_block_delta","delta":[]}"#,
            r#"{"type":"content_block_start","index":"a","content_block":{"type":"tool_use"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"partial_json":1}}"#,
            r#"{"type":"response.output_item.done"}"#,
            r#"{"type":"response.output_item.added","item":{"type":"function_call"}}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"x"}"#,
            r#"{"type":"message_stop"}"#,
        ];
        let mut calls = ToolCalls::new();
        for name in names {
            calls.add(&Event::new("", PIECES[name]));
        }
        drop(calls.into_calls());
    }
}

/// The parts of two calls may come in turns.
#[test]
fn parts_of_several_calls_may_come_in_turns() {
    for format in [Format::Chat, Format::Responses, Format::Anthropic] {
        let of = |at, name| {
            let parts = ["{\"a\"".to_owned(), format!(":{at}}}")];
            call(format, at, [name, name], &parts)
        };
        let (first, second) = (of(0, "x"), of(1, "y"));
        let turns = first.into_iter().zip(second).flat_map(|(first, second)| [first, second]);
        let events: Vec<Value> = turns.chain(end(format)).collect();
        let wanted = [["x", "x", r#"{"a":0}"#], ["y", "y", r#"{"a":1}"#]];
        assert_eq!(facts(&collect(&events)), wanted, "{format:?}");
    }
}

/// Some interfaces like that of OpenAI send each call as a whole, give no index or give 0 to all of them.
#[test]
fn whole_calls_are_as_many_as_the_provider_sends() {
    let whole = |id: &str, name: &str, index: Option<u64>| {
        let mut call = json!({ "id": id, "function": { "name": name, "arguments": "{\"a\":1}" } });
        if let Some(index) = index {
            call["index"] = index.into();
        }
        call
    };
    let event = |calls: &[Value]| json!({ "choices": [{ "delta": { "tool_calls": calls } }] });
    for index in [None, Some(0)] {
        for ids in [["x", "y"], ["", ""]] {
            for names in [["f", "g"], ["f", "f"]] {
                let [first, second] = [0, 1].map(|at| whole(ids[at], names[at], index));
                let each = vec![event(from_ref(&first)), event(from_ref(&second))];
                for events in [each, vec![event(&[first, second])]] {
                    let events = [events, end(Format::Chat)].concat();
                    let found = collect(&events);
                    let wanted = [0, 1].map(|at| [ids[at], names[at], r#"{"a":1}"#]);
                    assert_eq!(facts(&found), wanted, "{events:?}");
                }
            }
        }
    }
}

/// A field may be repeated, may come empty and may come late. A part with another id and without a name goes on.
#[test]
fn later_parts_do_not_change_the_id_and_the_name() {
    let event = |call: Value| json!({ "choices": [{ "delta": { "tool_calls": [call] } }] });
    let mut events = vec![
        event(json!({ "index": 0, "function": { "name": "f", "arguments": null } })),
        event(json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"a\"" } })),
        event(json!({ "index": 0, "id": "b", "function": { "name": null, "arguments": ":1" } })),
        event(json!({ "index": 0, "id": "", "function": { "name": "", "arguments": "}" } })),
        event(json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "" } })),
    ];
    events.extend(end(Format::Chat));
    assert_eq!(facts(&collect(&events)), [["a", "f", r#"{"a":1}"#]]);
}

/// A tool without parameters gets no arguments at all, or an empty object.
#[test]
fn a_call_without_arguments_has_an_empty_object() {
    for format in FORMATS {
        for parts in [&[""][..], &["{}"], &["", "{", "}"]] {
            let parts: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
            let events = [call(format, 0, ["a", "time"], &parts), end(format)].concat();
            let found = collect(&events);
            assert_eq!(found.len(), 1, "{format:?}");
            assert_eq!((found[0].name(), found[0].arguments()), ("time", "{}"), "{format:?}");
        }
    }
}

/// Gemini sends whole calls, whose arguments are an object, and often no id.
#[test]
fn calls_of_gemini_are_whole() {
    let parts = json!([
        { "text": "Let me see.", "thought": true },
        { "functionCall": { "name": "look", "args": { "at": 8, "city": "Köln" } }, "thoughtSignature": "c2ln" },
        { "functionCall": { "id": "b", "name": "time", "args": {} } },
        { "functionCall": { "name": "look", "args": { "at": 8 } } },
    ]);
    let event = |parts: Value| json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] });
    let mut last = event(json!([{ "functionCall": { "name": "time" } }]));
    last["candidates"][0]["finishReason"] = "STOP".into();
    let found = collect(&[event(parts), last]);
    let wanted = [
        ["", "look", r#"{"at":8,"city":"Köln"}"#],
        ["b", "time", "{}"],
        ["", "look", r#"{"at":8}"#],
        ["", "time", "{}"],
    ];
    assert_eq!(facts(&found), wanted);
}

/// A tool of the server itself sends its arguments in the same form, and its calls are not those of the program.
#[test]
fn tools_of_the_server_are_left_out() {
    let start = |at: u64, block: Value| json!({ "type": "content_block_start", "index": at, "content_block": block });
    let part = |at: u64, part: &str| {
        let delta = json!({ "type": "input_json_delta", "partial_json": part });
        json!({ "type": "content_block_delta", "index": at, "delta": delta })
    };
    let mut events = vec![
        start(0, json!({ "type": "tool_use", "id": "a", "name": "time", "input": {} })),
        start(1, json!({ "type": "server_tool_use", "id": "b", "name": "web" })),
        part(1, "{\"q\":1}"),
        start(0, json!({ "type": "server_tool_use", "id": "c", "name": "web" })),
        part(0, "{\"q\":2}"),
        // A server that sends the whole arguments at the start, and one that sends them twice.
        start(2, json!({ "type": "tool_use", "id": "d", "name": "look", "input": { "at": 8 } })),
        start(3, json!({ "type": "tool_use", "id": "e", "name": "look", "input": { "at": 8 } })),
        part(3, "{\"at\":8}"),
    ];
    events.extend(end(Format::Anthropic));
    let wanted = [["a", "time", "{}"], ["d", "look", r#"{"at":8}"#], ["e", "look", r#"{"at":8}"#]];
    assert_eq!(facts(&collect(&events)), wanted);
    let items = ["web_search_call", "custom_tool_call", "message"].map(|kind| {
        let item = json!({ "type": kind, "call_id": "a", "name": "web" });
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item })
    });
    let events = [&items[..], &end(Format::Responses)].concat();
    assert_eq!(collect(&events), []);
}

/// An answer that was cut has half a call, and only the reason of its end says so.
#[test]
fn an_answer_that_was_cut_has_no_calls() {
    let half = ["{\"a\"".to_owned()];
    for (format, end) in [
        (Format::Chat, json!({ "choices": [{ "delta": {}, "finish_reason": "length" }] })),
        (
            Format::Anthropic,
            json!({ "type": "message_delta", "delta": { "stop_reason": "max_tokens" } }),
        ),
        (
            Format::Responses,
            json!({ "type": "response.incomplete", "response": { "incomplete_details": { "reason": "max_output_tokens" } } }),
        ),
        (
            Format::Responses,
            json!({ "type": "response.failed", "response": { "error": { "code": "server_error" } } }),
        ),
    ] {
        let mut events = call(format, 0, ["a", "f"], &half);
        events.push(end);
        let found = collect(&events);
        assert_eq!(found, [], "{events:?}");
        // What follows does not make it whole.
        events.push(json!({ "type": "message_stop" }));
        assert_eq!(collect(&events), []);
    }
}

/// The first choice counts, as it does for the words.
#[test]
fn the_calls_of_other_choices_are_left_out() {
    let event = |choice: u64| {
        let call = json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{}" } });
        json!({ "choices": [{ "index": choice, "delta": { "tool_calls": [call] } }] })
    };
    let events = [vec![event(0), event(1)], end(Format::Chat)].concat();
    assert_eq!(collect(&events).len(), 1);
}
