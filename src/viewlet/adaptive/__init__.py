"""Adaptive maintenance of cyclic joins: triangles under updates in worst-case optimal time (IVM-epsilon).

After A. Kara, H. Q. Ngo, M. Nikolic, D. Olteanu, H. Zhang, "Counting Triangles under Updates in Worst-Case Optimal
Time" (ICDT 2019). For relations R(a, b), S(b, c), T(c, a) with payloads in a commutative ring it maintains

    Q = Sum over a, b, c of  R(a, b) * S(b, c) * T(c, a)

Values of many tuples are heavy, those of few are light, and every combination of heavy and light parts is maintained in
the way that is cheap for it.

| module         | what it has                                                                        |
|----------------|------------------------------------------------------------------------------------|
| `part`         | a relation over two variables, indexed on both                                     |
| `partition`    | a relation as a heavy, a light and a sparse part (Definition 6, section 5)         |
| `pair_view`    | an auxiliary view: paths of two tuples, by their ends                              |
| `groups`       | the result: a payload for every group                                              |
| `triangles`    | the state (Definition 7)                                                           |
| `update`       | a change of one tuple (Figure 3)                                                   |
| `rebalance`    | major and minor rebalancing, changes of one tuple and of many (Figure 4)           |
| `choose_epsilon` | which epsilon, by the degrees and a memory budget                                |
| `invariants`   | what holds between two updates, checked                                            |
| `plan`         | the plan of a view: how rows of tables become changes of tuples                    |
| `state`        | the protocol of a state that an engine runs                                        |
| `reference`    | such a state on dictionaries                                                       |
| `flat_parts`   | the parts of a relation in flat arrays                                             |
| `flat_words`   | the words that the functions below are called with                                 |
| `flat_result`  | the views and the result in flat arrays                                            |
| `flat_update`  | a change of one tuple, `flat_rebalance` what follows from it                       |
| `kernel`       | what Python calls of these                                                         |
| `bulk_join`    | all triangles of the tuples there are, to start with                               |
| `flat_state`   | a state in flat arrays, changed by `kernel`; `columns` reads its rows              |
"""
