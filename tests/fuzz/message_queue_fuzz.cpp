// MessageQueue against std::deque: first in, first out, each message destroyed once.
#include <strata/message_queue.hpp>

#include <deque>
#include <memory>

#include "choices.h"

namespace {

using namespace strata;
using fuzz::require;

struct Message {
  explicit Message(unsigned with) : value(std::make_unique<unsigned>(with)) {
    if (with % 31 == 30) throw with;
  }
  std::unique_ptr<unsigned> value;
};

template <typename Queue>
void run(fuzz::Choices& choices) {
  Queue queue;
  std::deque<unsigned> model;
  for (unsigned i = 0; !choices.is_over(); ++i) {
    const std::uint8_t action = choices.byte();
    try {
      if (action < 130) {
        const bool is_sent = queue.try_emplace(i);
        require(is_sent == (model.size() < Queue::capacity()), "a queue is full at its capacity");
        if (is_sent) model.push_back(i);
      } else if (action < 160) {
        Message message(i);
        const bool is_sent = queue.try_push(std::move(message));
        require(is_sent == (message.value == nullptr), "what is not sent is left alone");
        if (is_sent) model.push_back(i);
      } else {
        const bool throws = action > 250;
        const bool is_there = !model.empty();
        require(queue.empty() == !is_there, "a queue knows whether it is empty");
        const unsigned front = is_there ? model.front() : 0;
        if (is_there) model.pop_front();
        const bool has_come = queue.try_consume([&](Message& message) {
          require(*message.value == front, "messages come in the order in which they were sent");
          if (throws) throw front;
        });
        require(has_come == is_there, "what was sent comes");
      }
    } catch (unsigned) {
    }
    require(queue.in_flight() == model.size(), "messages on their way are counted");
  }
}

}  // namespace

STRATA_FUZZ(choices) {
  switch (choices.below(4)) {
    case 0:
      return run<MessageQueue<Message, 1>>(choices);
    case 1:
      return run<MessageQueue<Message, 7, Producers::kOne>>(choices);
    case 2:
      return run<MessageQueue<Message, 64>>(choices);
    default:
      return run<MessageQueue<Message, 100>>(choices);
  }
}
