use std::io;

use futures_util::{Stream, TryStreamExt, stream};
use resile::stream::{Part, Resumption};
use resile::{Attempt, Never, RetryPolicy, retry_stream};

/// The connection of the first answer closes after a word.
async fn open(
    attempt: Attempt,
) -> io::Result<impl Stream<Item = io::Result<&'static str>>> {
    let words: &[_] = if attempt.is_first() {
        &["Take"]
    } else {
        &["Take", "a", "scarf.", "[DONE]"]
    };
    Ok(stream::iter(words.iter().map(|word| Ok(*word))))
}

fn part(word: &&str) -> Part {
    if *word == "[DONE]" { Part::End } else { Part::Content }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let wrong = retry_stream(open, RetryPolicy::new(), Never).on("model");
    let answer: Vec<_> = wrong.try_collect().await.unwrap();
    assert_eq!((answer.len(), answer[0]), (1, "Take"));

    let mended = retry_stream(open, RetryPolicy::new(), Never)
        .with_parts(part)
        .with_required_end()
        .with_resumption(|_| Resumption::Restart("(again)"))
        .on("model");
    let answer: Vec<_> = mended.try_collect().await.unwrap();
    assert_eq!(answer, ["Take", "(again)", "Take", "a", "scarf.", "[DONE]"]);
}
