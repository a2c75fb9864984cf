"""Models fitted to maintained cofactors instead of rows; their cost depends on the number of features only.

    RidgeRegression(label="price").fit(db.view("m"))      solves from count, sums and products
    model.refresh()                                       after any batch of inserts and deletes

The models follow the conventions of scikit-learn: parameters are given to the constructor, the methods are `fit`,
`predict` and `score`, and fitted attributes end with an underscore. `fit` takes a view, a cofactor table, or a view
tree. `RecursiveRidge` and `TruncatedSVD` learn from arrays of rows instead, which come and go.
"""

from viewlet.errors import MissingExtraError

try:
    import scipy as _scipy  # noqa: F401 - only to say how to get it
except ImportError as error:
    raise MissingExtraError("viewlet.ml needs SciPy: pip install 'viewlet[ml]'") from error

from viewlet.ml.estimator import NotFittedError, ParameterError
from viewlet.ml.information import ChowLiuTree, MutualInformation
from viewlet.ml.linear import ConvergenceWarning, LinearRegression, RidgeRegression
from viewlet.ml.pca import PCA
from viewlet.ml.per_group import PerGroup
from viewlet.ml.polynomial import PolynomialRegression
from viewlet.ml.rows import RecursiveRidge, TruncatedSVD

__all__ = [
    "PCA",
    "ChowLiuTree",
    "ConvergenceWarning",
    "LinearRegression",
    "MutualInformation",
    "NotFittedError",
    "ParameterError",
    "PerGroup",
    "PolynomialRegression",
    "RecursiveRidge",
    "RidgeRegression",
    "TruncatedSVD",
]
